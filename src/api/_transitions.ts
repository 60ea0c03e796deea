import { type Fields, obeys, type Rule } from './rules.ts';

/** Messages of the transition rules that a change from `old` to `object` breaks; the API server evaluates their CEL. */
export const brokenTransitions = (rules: readonly Rule[], object: Fields, old: Fields): string[] =>
  rules.filter((rule) => !obeys(rule, object, old)).map((rule) => rule.message);
