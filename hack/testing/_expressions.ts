import { parseSync } from 'oxc-parser';

/** A regular expression in the sources. */
export interface Expression {
  /** file and line */
  place: string;
  source: string;
  flags: string;
}

/** An expression that is made while the program runs; its text is known then. */
export interface MadeExpression {
  place: string;
  /** how the sources say what it is made of */
  from: string;
}

interface SyntaxNode {
  type: string;
  start: number;
  end: number;
  regex?: { pattern: string; flags: string };
  [member: string]: unknown;
}

/** All regular expressions of a file: literals, and those that `RegExp` makes. */
export function expressionsIn(file: string, text: string): { written: Expression[]; made: MadeExpression[] } {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const found = { written: [] as Expression[], made: [] as MadeExpression[] };
  const placeOf = ({ start }: SyntaxNode) => `${file}:${text.slice(0, start).split('\n').length}`;
  const visit = (node: SyntaxNode, isSplit: boolean): void => {
    if (node.regex) {
      const { pattern, flags } = node.regex;
      // split looks for all matches, whatever the flags say.
      found.written.push({
        place: placeOf(node),
        source: pattern,
        flags: isSplit && !flags.includes('g') ? `${flags}g` : flags,
      });
    }
    const { callee, arguments: given } = node as { callee?: SyntaxNode; arguments?: SyntaxNode[] };
    if (callee?.name === 'RegExp') {
      const [source, flags] = (given ?? []).map(({ value }) => value);
      if (typeof source === 'string') found.written.push({ place: placeOf(node), source, flags: String(flags ?? '') });
      else found.made.push({ place: placeOf(node), from: text.slice(given?.[0]?.start, given?.[0]?.end) });
    }
    const splits = (callee?.property as SyntaxNode | undefined)?.name === 'split';
    for (const [name, member] of Object.entries(node))
      for (const inner of Array.isArray(member) ? member : [member])
        if (isNode(inner)) visit(inner, splits && name === 'arguments');
  };
  visit(program as unknown as SyntaxNode, false);
  return found;
}

const isNode = (value: unknown): value is SyntaxNode =>
  typeof value === 'object' && value !== null && typeof (value as SyntaxNode).type === 'string';
