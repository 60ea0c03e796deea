import { describe, expect, test } from 'vitest';
import type { LocalImage } from '../../engine-port/images.ts';
import { selectImage } from './selector.ts';

const image = (digits: string, ...names: string[]): LocalImage => ({
  id: `sha256:${digits.padEnd(64, '0')}`,
  tags: names.filter((name) => !name.includes('@')),
  digests: names.filter((name) => name.includes('@')),
});
const pinned = `registry.example.com/shop/web@sha256:${'1'.repeat(64)}`;
const web = image('aaa1', 'registry.example.com/shop/web:1', pinned);
const hub = image('aaa2', 'nginx:1', 'docker.io/library/httpd:latest');
const local = image('b', 'localhost/till:1');
const twice = image('c', 'a.example.com/app:1', 'b.example.com/app:1');
const nameless = image('dddd');
const hexName = image('e', 'cafe:latest');
const hexId = image('cafe');
const all = [web, hub, local, twice, nameless, hexName, hexId];

/** The image that a selector means, with the name, or the problem. */
function meant(selector: string) {
  const found = selectImage(selector, all);
  return 'problem' in found ? found.problem : [found.image, found.name];
}

describe('a selector', () => {
  const cases: Record<string, [string, unknown]> = {
    'a name in full': ['registry.example.com/shop/web:1', [web, 'registry.example.com/shop/web:1']],
    'a name without its host': ['shop/web:1', [web, 'registry.example.com/shop/web:1']],
    'a name with a digest': [pinned, [web, pinned]],
    'a short name of the public hub': ['nginx:1', [hub, 'nginx:1']],
    'the full name of an image with a short one': ['docker.io/library/nginx:1', [hub, 'nginx:1']],
    'a name without a tag': ['httpd', [hub, 'docker.io/library/httpd:latest']],
    'a short name of an image of podman': ['till:1', [local, 'localhost/till:1']],
    'a full id': [nameless.id, [nameless, undefined]],
    'a full id without its algorithm': [nameless.id.slice(7), [nameless, undefined]],
    'three digits of an id': ['ddd', [nameless, undefined]],
    'the beginning of an id with its algorithm': ['sha256:dddd', [nameless, undefined]],
    'digits that begin two ids': ['aaa', 'ambiguous'],
    'one digit more': ['aaa2', [hub, undefined]],
    'a name that two images have at different hosts': ['app:1', 'ambiguous'],
    'a word that is a name and the beginning of an id': ['cafe', 'ambiguous'],
    'the same word with a tag': ['cafe:latest', [hexName, 'cafe:latest']],
    'two digits': ['dd', 'malformed'],
    'another tag': ['shop/web:2', 'unknown'],
    'the end of a path': ['web:1', 'unknown'],
    'digits of no id': ['fff', 'unknown'],
    'a path of the API of the engine': ['../containers/x', 'malformed'],
    'a text with a query': ['nginx:1?force=1', 'malformed'],
  };
  test.each(Object.entries(cases))('is understood: %s', (_, [selector, expected]) => {
    expect(meant(selector)).toEqual(expected);
  });

  test('has candidates where it is ambiguous', () => {
    expect(selectImage('app:1', all)).toEqual({
      problem: 'ambiguous',
      candidates: ['a.example.com/app:1', 'b.example.com/app:1'],
    });
    expect(selectImage('aaa', all)).toMatchObject({
      candidates: ['sha256:aaa100000000 registry.example.com/shop/web:1', 'sha256:aaa200000000 nginx:1'],
    });
  });
});
