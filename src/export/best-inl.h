// Keeps the highest scores, best first; of equal scores the earlier one comes first.
template <int most>
struct BestOf {
  double score[most];
  int config[most];
  int count = 0;

  void add(int of, double value) {
    int at = count;
    while (at > 0 && value > score[at - 1]) --at;
    if (at == most) return;
    if (count < most) ++count;
    for (int i = count - 1; i > at; --i) {
      score[i] = score[i - 1];
      config[i] = config[i - 1];
    }
    score[at] = value;
    config[at] = of;
  }
};
using Best = BestOf<max_ranked>;
