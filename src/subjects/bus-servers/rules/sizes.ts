const UNITS = { '': 3, m: 2, mb: 2, g: 3, gb: 3, t: 4, tb: 4 } as const;

/** Sizes of stores as users write them: `10g`, `512 MB`; a number alone counts GiB. Their units are powers of 1,024. */
const STORE_SIZE = /^[0-9]{1,15} *(?:[mM]|[mM][bB]|[gG]|[gG][bB]|[tT]|[tT][bB])?$/;

/** Bytes of a size of a store; undefined: no size, none at all, or more than 2^53. */
export function storeBytes(text: string): number | undefined {
  if (!STORE_SIZE.test(text)) return undefined;
  const [, digits = '', unit = ''] = /^([0-9]+) *([a-z]*)$/i.exec(text) ?? [];
  const bytes = Number(digits) * 1024 ** UNITS[unit.toLowerCase() as keyof typeof UNITS];
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}
