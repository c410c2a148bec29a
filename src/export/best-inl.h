// Keeps the highest scores, best first; of equal scores the earlier one comes first.
struct Best {
  double score[max_ranked];
  int config[max_ranked];
  int count = 0;

  void add(int of, double value) {
    int at = count;
    while (at > 0 && value > score[at - 1]) --at;
    if (at == max_ranked) return;
    if (count < max_ranked) ++count;
    for (int i = count - 1; i > at; --i) {
      score[i] = score[i - 1];
      config[i] = config[i - 1];
    }
    score[at] = value;
    config[at] = of;
  }
};
