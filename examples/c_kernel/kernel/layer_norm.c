/* y = (x - mean) / sqrt(variance + eps) for each row, float32 in raw files: layer_norm COLUMNS EPS X.bin Y.bin */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void layer_norm(const float *x, float *y, int columns, double eps) {
  double sum = 0, squares = 0;
  for (int i = 0; i < columns; i++) sum += x[i];
  double mean = sum / columns;
  for (int i = 0; i < columns; i++) squares += (x[i] - mean) * (x[i] - mean);
  double scale = 1 / sqrt(squares / columns + eps);
  for (int i = 0; i < columns; i++) y[i] = (float)((x[i] - mean) * scale);
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "usage: layer_norm COLUMNS EPS X.bin Y.bin\n"), 2;
  int columns = atoi(argv[1]);
  FILE *in = fopen(argv[3], "rb"), *out = fopen(argv[4], "wb");
  float *row = columns > 0 ? malloc(2 * columns * sizeof *row) : NULL;
  if (!in || !out || !row) return fprintf(stderr, "cannot read %s or write %s\n", argv[3], argv[4]), 3;
  while (fread(row, sizeof *row, columns, in) == (size_t)columns) {
    layer_norm(row, row + columns, columns, strtod(argv[2], NULL));
    if (fwrite(row + columns, sizeof *row, columns, out) != (size_t)columns) return 4;
  }
  free(row);
  return fclose(out) != 0;
}
