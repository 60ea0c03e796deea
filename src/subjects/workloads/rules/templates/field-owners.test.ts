import { describe, expect, it } from 'vitest';
import { conflicts, isOwnedByOthers } from './field-owners.ts';

describe('a conflict', () => {
  const owned = (path: string[], manager = 'kubectl') => ({
    manager,
    fieldsV1: path.toReversed().reduce<Record<string, unknown>>((inner, step) => ({ [step]: inner }), {}),
  });
  const web = ['f:spec', 'f:microservices', 'k:{"name":"web"}'];
  const ours = 'skerry-template/web';
  const entry = { name: 'web', images: { amd64: 'a:1' }, container: { env: [{ key: 'A', value: '1' }] } };
  const part = { name: 'web', images: { arm64: 'b:1' }, container: { env: [{ key: 'B', value: '2' }] }, schedule: 5 };

  it('is a member that another manager owns with another value', () => {
    expect(conflicts(entry, part, [owned([...web, 'f:container', 'f:env'])], ours)).toEqual(['container.env']);
    expect(conflicts(entry, entry, [owned([...web, 'f:container', 'f:env'])], ours)).toEqual([]);
    expect(conflicts(entry, part, [owned([...web, 'f:container', 'f:env'], ours)], ours)).toEqual([]);
  });

  it('is an image of an architecture that the template has none for', () => {
    expect(conflicts(entry, part, [owned([...web, 'f:images', 'f:amd64'])], ours)).toEqual(['images.amd64']);
  });

  it('is nothing that only a status has', () => {
    const status = { ...owned([...web, 'f:schedule']), subresource: 'status' };
    expect(isOwnedByOthers([status], ours, [...web, 'f:schedule'])).toBe(false);
  });
});
