import { describe, expect, it } from 'vitest';
import { digestOf } from '../../wire/index.ts';
import { makeApplication, makeEntry } from '../_util.ts';
import { abandonedTemplates, clashes, dueTemplates, isOwnedByOthers, notRendered } from './due.ts';

const template = { name: 'base', variables: { level: 'info' } };
const withAnnotations = (annotations: Record<string, string>, more: object = {}) => {
  const made = makeApplication({ entries: [makeEntry({ name: 'web', template })], ...more });
  return { ...made, metadata: { ...made.metadata, annotations } };
};

describe('the template of an entry', () => {
  it('is due until the annotation of the entry has the hash of the reference', () => {
    expect(dueTemplates(withAnnotations({}))).toMatchObject([
      { template, annotation: 'template.skerry.dev/web', manager: 'skerry-template/web', hash: digestOf(template) },
    ]);
    const rendered = withAnnotations({ 'template.skerry.dev/web': digestOf(template) });
    expect(dueTemplates(rendered)).toEqual([]);
    expect(notRendered(rendered, 'web', template)).toBeUndefined();
    expect(notRendered(rendered, 'web', { ...template, variables: {} })).toMatchObject({
      reason: 'TemplateNotRendered',
    });
    expect(notRendered(rendered, 'other', undefined)).toBeUndefined();
  });

  it('is abandoned once the entry is gone or names none', () => {
    const annotations = { 'template.skerry.dev/web': 'x', 'template.skerry.dev/gone': 'y', 'skerry.dev/template': 'z' };
    expect(abandonedTemplates(withAnnotations(annotations))).toEqual(['template.skerry.dev/gone']);
  });
});

describe('a clash', () => {
  const owned = (path: string[], manager = 'kubectl') => ({
    manager,
    fieldsV1: path.toReversed().reduce<Record<string, unknown>>((inner, step) => ({ [step]: inner }), {}),
  });
  const web = ['f:spec', 'f:microservices', 'k:{"name":"web"}'];
  const ours = 'skerry-template/web';
  const entry = { name: 'web', images: { amd64: 'a:1' }, container: { env: [{ key: 'A', value: '1' }] } };
  const part = { name: 'web', images: { arm64: 'b:1' }, container: { env: [{ key: 'B', value: '2' }] }, schedule: 5 };

  it('is a member that another manager owns with another value', () => {
    expect(clashes(entry, part, [owned([...web, 'f:container', 'f:env'])], ours)).toEqual(['container.env']);
    expect(clashes(entry, entry, [owned([...web, 'f:container', 'f:env'])], ours)).toEqual([]);
    expect(clashes(entry, part, [owned([...web, 'f:container', 'f:env'], ours)], ours)).toEqual([]);
  });

  it('is an image of an architecture that the template has none for', () => {
    expect(clashes(entry, part, [owned([...web, 'f:images', 'f:amd64'])], ours)).toEqual(['images.amd64']);
  });

  it('is nothing that only a status has', () => {
    const status = { ...owned([...web, 'f:schedule']), subresource: 'status' };
    expect(isOwnedByOthers([status], ours, [...web, 'f:schedule'])).toBe(false);
  });
});
