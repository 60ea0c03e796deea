/** Whether a text names a time zone; the empty one is UTC. */
export function isTimeZone(name: string): boolean {
  if (name === '') return true;
  // Offsets are no names, and containers do not know them in this form.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}
