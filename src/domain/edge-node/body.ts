import type { EdgeNode, EdgeNodeSpec } from '../../api/v3/index.ts';

/** The spec that a create body asks for; throws DomainError. Unknown fields are dropped. */
export function nodeFromBody(_body: unknown): { name: string; spec: EdgeNodeSpec } {
  throw new Error('not written yet');
}

/** The spec after a PATCH body: absent fields stay, null removes. Throws DomainError. */
export function patchNode(_node: EdgeNode, _body: unknown): EdgeNodeSpec {
  throw new Error('not written yet');
}
