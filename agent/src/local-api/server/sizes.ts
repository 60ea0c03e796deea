const UNITS = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

/** A size for people, in powers of 1000, as container engines print them. */
export function decimalSize(bytes: number): string {
  let figure = bytes;
  let unit = 0;
  // 999.95 would be printed as 1000.0.
  while (figure >= 999.95 && unit < UNITS.length - 1) {
    figure /= 1000;
    unit++;
  }
  return `${unit === 0 ? figure : figure.toFixed(1)} ${UNITS[unit]}`;
}
