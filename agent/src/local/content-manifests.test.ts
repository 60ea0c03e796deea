import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { AgentError } from '../domain/agent-error.ts';
import {
  artifactOfMembers,
  readArtifactManifests,
  readRegistryManifest,
  readRuntimeClassManifest,
} from './content-manifests.ts';

const PEM = readFileSync(new URL('../link/testdata/ca.pem', import.meta.url));
const CA = PEM.toString('base64');
const CANARY = 'hunter-2-canary';
const VERSION = 'agent.skerry.dev/v1';

const registry = (spec: object, rest: object = {}) =>
  JSON.stringify({
    apiVersion: VERSION,
    kind: 'Registry',
    spec: { url: 'registry.example', private: false, ...spec },
    ...rest,
  });
const model = (spec: object = {}, metadata: object = {}, rest: object = {}) =>
  JSON.stringify({
    apiVersion: VERSION,
    kind: 'Model',
    metadata: { name: 'tiny', ...metadata },
    spec: { repo: 'team/tiny', registry: 3, ...spec },
    ...rest,
  });

function refusal(read: () => unknown): string {
  try {
    return `taken: ${JSON.stringify(read())}`;
  } catch (error) {
    expect(error).toBeInstanceOf(AgentError);
    expect((error as AgentError).code).toBe('INVALID_ARGUMENT');
    return (error as Error).message;
  }
}

describe('the manifest of a registry', () => {
  test('has the members of a registry, with defaults', () => {
    expect(readRegistryManifest(registry({}))).toEqual({
      ...{ type: 'oci', url: 'registry.example', isPublic: true, insecure: false },
      ...{ username: '', password: '', userEmail: '', ca: '' },
    });
    const written = { id: 9, private: true, username: 'ann', password: CANARY, email: 'ann@example.com', ca: CA };
    expect(readRegistryManifest(registry(written))).toEqual({
      ...{ id: 9, type: 'oci', url: 'registry.example', isPublic: false, insecure: false },
      ...{ username: 'ann', password: CANARY, userEmail: 'ann@example.com', ca: CA },
    });
    expect(readRegistryManifest(registry({ type: 'hub', private: true, password: CANARY }))).toMatchObject({
      type: 'hub',
    });
  });

  test.each<[string, string, RegExp]>([
    ['no member private', registry({ private: undefined }), /^spec\.private: is required/],
    ['another kind', registry({}, { kind: 'Model' }), /^kind: "Model"/],
    ['another group', registry({}, { apiVersion: 'skerry.dev/v3' }), /^apiVersion: "skerry\.dev\/v3"/],
    ['a name', registry({}, { metadata: { name: 'a' } }), /unknown field "metadata"/],
    ['an unknown member', registry({ passwd: CANARY }), /^spec: unknown field "passwd"/],
    ['no url', registry({ url: undefined }), /^spec\.url: is required/],
    ['a url with credentials', registry({ url: `https://ann:${CANARY}@registry.example` }), /^spec\.url: /],
    ['a url that is none', registry({ url: `../${CANARY}` }), /^spec\.url: /],
    ['plain http', registry({ url: 'http://registry.example' }), /^spec\.url: http:\/\/ needs insecure: true/],
    ['another type', registry({ type: 'git' }), /^spec\.type: "git" must be one of oci, hub/],
    ['an id of no number', registry({ id: '7' }), /^spec\.id: "7" /],
    ['an id that is too large', registry({ id: 1_000_000 }), /^spec\.id: "1000000" /],
    ['a private one without a name', registry({ private: true, password: CANARY }), /needs both/],
    ['a private one without a password', registry({ private: true, username: CANARY }), /needs both/],
    ['a private hub without a token', registry({ private: true, type: 'hub' }), /needs its token/],
    ['a public one with credentials', registry({ username: CANARY, password: CANARY }), /^spec\.private: false/],
    [
      'a hub with a name',
      registry({ type: 'hub', private: true, username: CANARY, password: CANARY }),
      /^spec\.username/,
    ],
    ['a hub with an e-mail', registry({ type: 'hub', email: `${CANARY}@a.b` }), /^spec\.email/],
    ['an e-mail that is none', registry({ email: CANARY }), /^spec\.email/],
    ['a ca that is no base64', registry({ ca: `-----BEGIN ${CANARY}` }), /^spec\.ca/],
    ['a ca without certificates', registry({ ca: Buffer.from(CANARY).toString('base64') }), /^spec\.ca/],
    [
      'a password that is a number',
      registry({ private: true, username: 'a', password: 12 }),
      /^spec\.password: must be text/,
    ],
    [
      'a password that is a list',
      registry({ private: true, username: 'a', password: [CANARY] }),
      /^spec\.password: must/,
    ],
    ['a text', `"${CANARY}"`, /must be a map/],
    [
      'a key twice',
      `apiVersion: ${VERSION}\nkind: Registry\nspec:\n  password: ${CANARY}\n  password: ${CANARY}\n`,
      /a key twice/,
    ],
    ['no YAML', `spec: [${CANARY}`, /not valid YAML/],
    ['two documents', `${registry({})}\n---\n${registry({})}`, /several documents/],
    ['nothing', '', /empty/],
  ])('is refused with %s, and nothing secret is repeated', (_what, source, message) => {
    const said = refusal(() => readRegistryManifest(source));
    expect(said).toMatch(message);
    expect(said).not.toContain(CANARY);
  });

  test('may not be a bomb', () => {
    const levels = Array.from(
      { length: 30 },
      (_, level) => `a${level}: &a${level} [${`*a${level - 1}, `.repeat(level && 9)}1]`,
    );
    expect(refusal(() => readRegistryManifest(levels.join('\n')))).toMatch(/aliases|values/);
    expect(refusal(() => readRegistryManifest('#'.repeat(1024 * 1024 + 1)))).toMatch(/at most 1048576/);
  });
});

describe('a manifest of models or knowledge', () => {
  test('has one or several documents', () => {
    expect(
      readArtifactManifests('models', model({ files: ['*.gguf'], format: 'gguf' }, { labels: { a: 'b' } })),
    ).toEqual([
      {
        ...{ name: 'tiny', labels: { a: 'b' }, repo: 'team/tiny', revision: '', files: ['*.gguf'], registry: 3 },
        format: 'gguf',
      },
    ]);
    const two = `# models\n---\n${model()}\n---\n# none\n---\n${model({}, { name: 'other' })}\n`;
    expect(readArtifactManifests('models', two).map(({ name }) => name)).toEqual(['tiny', 'other']);
  });

  test.each<[string, string, RegExp]>([
    ['a name that is a path', model({}, { name: '../../etc' }), /^metadata\.name: "\.\.\/\.\.\/etc"/],
    ['a name that is too long', model({}, { name: 'a'.repeat(64) }), /^metadata\.name/],
    ['no name', model({}, { name: undefined }), /^metadata\.name: is required/],
    ['a repo with a host', model({ repo: 'https://hub.example/team/tiny' }), /^spec\.repo/],
    ['a repo that is a path', model({ repo: '../tiny' }), /^spec\.repo/],
    ['no registry', model({ registry: undefined }), /^spec\.registry: is required/],
    ['a file that is a path', model({ files: ['../../etc/passwd'] }), /^spec\.files\[0\]/],
    ['a format of knowledge', model({ format: 'pdf' }), /^spec\.format: "pdf" must be one of gguf/],
    ['the kind of the other', model({}, {}, { kind: 'Knowledge' }), /^kind: "Knowledge"/],
    ['an unknown member', model({ nodes: ['a'] }), /^spec: unknown field "nodes"/],
    ['a name twice', `${model()}\n---\n${model()}`, /tiny is there twice/],
    ['a wrong second one', `${model()}\n---\n${model({ repo: '' }, { name: 'b' })}`, /^document [2]: spec\.repo/],
    ['too many', Array.from({ length: 65 }, (_, n) => model({}, { name: `m${n}` })).join('\n---\n'), /at most 64/],
    ['nothing', '---\n# none\n', /empty/],
  ])('is refused with %s', (_what, source, message) => {
    expect(refusal(() => readArtifactManifests('models', source))).toMatch(message);
  });

  test('is judged in the same way as the members of a request', () => {
    expect(
      artifactOfMembers('knowledge', { name: 'docs', repo: 'team/docs', registryId: 3, format: 'pdf' }),
    ).toMatchObject({
      ...{ name: 'docs', repo: 'team/docs', registry: 3, format: 'pdf' },
    });
    expect(refusal(() => artifactOfMembers('models', { name: '../x', repo: 'a', registryId: 3 }))).toMatch(
      /metadata\.name/,
    );
  });
});

test('the manifest of a runtime class has its handler at the top', () => {
  const head = { apiVersion: VERSION, kind: 'RuntimeClass', metadata: { name: 'fast' } };
  expect(readRuntimeClassManifest(JSON.stringify({ ...head, handler: 'runc' }))).toEqual({
    name: 'fast',
    handler: 'runc',
  });
  const wrong = (rest: object) => refusal(() => readRuntimeClassManifest(JSON.stringify({ ...head, ...rest })));
  expect(wrong({ spec: { handler: 'runc' } })).toMatch(/handler: is required|unknown field "spec"/);
  expect(wrong({ handler: '../runc' })).toMatch(/^handler: /);
  expect(wrong({ handler: 'runc', metadata: { name: 'a/b' } })).toMatch(/^metadata\.name/);
});
