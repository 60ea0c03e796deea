/** The timestamp format of Leases and Events: always six decimals. */
export function microTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace('Z', '000Z');
}
