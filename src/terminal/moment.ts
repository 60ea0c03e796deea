const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3600_000, d: 86_400_000 };

/** A date and time in UTC, from itself or from a duration before now, such as `1h30m`; undefined for what is neither. */
export function momentOf(text: string, now: number): string | undefined {
  const parts = /^(\d{1,9}[smhd])+$/.test(text) ? [...text.matchAll(/(?<!\d)(\d{1,9})([smhd])/g)] : undefined;
  const at = parts
    ? now - parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNITS[unit] ?? 0), 0)
    : Date.parse(text);
  // A plain number would be parsed as a year.
  if (Number.isNaN(at) || /^\d*$/.test(text) || Math.abs(at) > 8.64e15) return undefined;
  return new Date(at).toISOString();
}
