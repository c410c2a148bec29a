# The wheel of ./dev wheel in an image: docker build -t kscout . ; docker run --rm kscout predict gemm:16x4096x4096
# For GPUs name an image that has Python and cuBLASLt, such as PyTorch's, and run it with --gpus all.
ARG BASE=python:3.13-slim
FROM $BASE
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY build/wheels/kscout-*.whl /tmp/
RUN pip install --no-cache-dir "$(echo /tmp/kscout-*.whl)[lab]" && rm /tmp/kscout-*.whl
ENTRYPOINT ["kscout"]
