import { BUS_KEYS, type BusTexts, parsedText } from './secret.ts';

/** The one object of the operator. */
export const OPERATOR_OBJECT = 'bus-operator';

/** Name of the operator of an installation. */
export const operatorName = (installation: string): string => `${installation}-operator`;

/** Tokens of the operators that servers trust, the signing one first: while an operator is rotated, servers trust several. */
export function trustedOperators(texts: BusTexts): readonly string[] {
  const { [BUS_KEYS.token]: token, [BUS_KEYS.nextToken]: next } = texts;
  const isTexts = (value: unknown) => Array.isArray(value) && value.every((one) => typeof one === 'string');
  const former = parsedText<readonly string[]>(texts[BUS_KEYS.trusted], [], isTexts);
  return [...new Set([token, next, ...former].filter((one) => one !== undefined))];
}
