import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const files = (...globs: unknown[]) => ({ repo: 'team/tiny', registryId: 3, files: globs });
const revision = (text: string) => ({ repo: 'team/tiny', registryId: 3, revision: text });

/** Documents that are accepted or refused alike as Model and as Knowledge. */
export const artifactCases: AgreementCase[] = [
  accepts('a repository and a registry', { repo: 'team/tiny', registryId: 3 }),
  accepts('a registry by name', { repo: 'team/tiny', registryId: 'hub' }),
  accepts('registry as other spelling of registryId', { repo: 'team/tiny', registry: 'hub' }),
  accepts('every field', {
    uuid: '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6',
    repo: 'team/tiny',
    revision: 'main',
    registryId: 3,
    files: ['*.gguf', 'docs/**/page-?.md', '.config', '..data'],
    nodes: ['gw-1', '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6'],
  }),
  accepts('empty revision, files and nodes', { repo: 'tiny', registryId: 1, revision: '', files: [], nodes: [] }),
  accepts('a digest as revision', revision(`sha256:${'0'.repeat(64)}`)),
  accepts('a branch with a slash', revision('refs/pr/1')),
  refuses('both spellings of the registry', { repo: 'team/tiny', registryId: 3, registry: 3 }),
  refuses('no registry', { repo: 'team/tiny' }),
  refuses('no repository', { registryId: 3 }),
  refuses('an empty repository', { repo: '', registryId: 3 }),
  refuses('a repository with a scheme', { repo: 'https://hub.example/team/tiny', registryId: 3 }),
  refuses('a repository that leaves its place', { repo: 'team/../other', registryId: 3 }),
  refuses('a repository that begins with a slash', { repo: '/team/tiny', registryId: 3 }),
  refuses('a repository with a space', { repo: 'team/ti ny', registryId: 3 }),
  refuses('a revision that leaves its place', revision('../main')),
  refuses('a revision with a query', revision('main?x=1')),
  refuses('an empty file', files('')),
  refuses('an absolute file', files('/etc/passwd')),
  refuses('a file that leaves its place', files('a/../b')),
  refuses('a file that is a dot', files('.')),
  refuses('a file with a backslash', files('a\\b')),
  refuses('too many files', files(...Array.from({ length: 65 }, (_, index) => `f${index}`))),
  refuses('files as text', { repo: 'team/tiny', registryId: 3, files: '*' }),
  refuses('an empty node', { repo: 'team/tiny', registryId: 3, nodes: [''] }),
  refuses('a name', { name: 'tiny', repo: 'team/tiny', registryId: 3 }),
  refuses('an unknown field', { repo: 'team/tiny', registryId: 3, size: 1 }),
];
