import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../../wire/digest.ts';
import { makeApplication, makeEntry } from '../../_make.ts';
import { abandonedTemplates, notRendered, pendingTemplates } from './pending.ts';

const template = { name: 'base', variables: { level: 'info' } };
const withAnnotations = (annotations: Record<string, string>, more: object = {}) => {
  const made = makeApplication({ entries: [makeEntry({ name: 'web', template })], ...more });
  return { ...made, metadata: { ...made.metadata, annotations } };
};

describe('the template of an entry', () => {
  it('is pending until the annotation of the entry has the hash of the reference', () => {
    expect(pendingTemplates(withAnnotations({}))).toMatchObject([
      { template, annotation: 'template.skerry.dev/web', manager: 'skerry-template/web', hash: digestOf(template) },
    ]);
    const rendered = withAnnotations({ 'template.skerry.dev/web': digestOf(template) });
    expect(pendingTemplates(rendered)).toEqual([]);
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
