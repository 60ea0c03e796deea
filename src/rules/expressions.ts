/** The opening of an expression of the template language. */
const OPENS = /\{\{|\{%/;

/**
 * The path of the first text of a document that has a template expression; keys are never rendered. `{{` and `{%` are
 * part of JSON only inside its strings, so expressions in a text of JSON are found too.
 */
export function findExpression(document: unknown): (string | number)[] | undefined {
  // Links to parents instead of paths: a path for each member of a deep document would cost the square of its depth.
  const open: Place[] = [{ value: document }];
  for (let place = open.pop(); place; place = open.pop()) {
    const { value } = place;
    if (typeof value === 'string' && OPENS.test(value)) return pathOf(place);
    if (typeof value !== 'object' || value === null) continue;
    const members = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
    for (const [key, member] of members.reverse()) open.push({ value: member, key, parent: place });
  }
  return undefined;
}

/** Longest path that a message shows. */
const PATH_STEPS = 32;

interface Place {
  value: unknown;
  key?: string | number;
  parent?: Place;
}

function pathOf(found: Place): (string | number)[] {
  const path: (string | number)[] = [];
  for (let place: Place | undefined = found; place?.key !== undefined; place = place.parent) path.push(place.key);
  return path.reverse().slice(0, PATH_STEPS);
}

export const EXPRESSION_REFUSED = 'holds a template expression, {{ or {%, which this route does not render';
