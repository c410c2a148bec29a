// A page that was opened as a file may start no worker, and the search of the site is one. This is one inside a frame:
// messages pass as between a page and a worker, and scripts that it imports are loaded one after the other.
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const base = new URL(url, location.href);
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      const inside = frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = new URL(source, base).href;
          script.onload = done;
          script.onerror = failed;
          inside.document.head.appendChild(script);
        });
      let loading = Promise.resolve();
      inside.importScripts = (...sources) => {
        for (const source of sources) loading = loading.then(() => load(source));
        return loading;
      };
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.post = (data) => {
        const event = new inside.MessageEvent("message", { data });
        inside.dispatchEvent(event);
        inside.onmessage?.(event);
      };
      this.started = load(base);
      this.frame = frame;
    }
    postMessage(data) {
      this.started.then(() => this.post(data));
    }
    terminate() {
      this.frame.remove();
    }
  };
})();
