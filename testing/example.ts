import { ANNOTATIONS } from '../src/api/names.ts';
import type { Draft, Item, State } from './sequences/model.ts';

/** Examples of one kind, from which the tests of every kind make objects and requests. */

export type Json = Record<string, unknown>;

export interface Example {
  /** v3 names; the first one exists from the start of a sequence. Some are no names of Kubernetes objects. */
  names: readonly [string, string, ...string[]];
  /** REST of a kind whose routes are written by hand; of the other ones the kind has it */
  rest?: { path: string; listPath?: string; list: string; part?: string; update?: 'PUT' | 'PATCH' };
  /** the spec without a name, which is also the JSON body; `name` is the whole name */
  spec(draft: Draft, name: string): Json;
  /** the body of a PATCH, where it is not the spec */
  change?(draft: Draft, name: string): Json;
  /** what a read shows, where it is not the spec */
  shown?(item: Item, state: State): Json;
  /** edits of disjoint members over REST; the n-th one of each follows the one before */
  edits: readonly Edit[];
  /** the merge patch of another writer, of a member that no edit has */
  kubectl(n: number): { metadata?: Json; spec?: Json };
  /** content that the edits need */
  edited?: Partial<Draft>;
}

export interface Edit {
  /** of the item, when it is not the item itself */
  path?: string;
  method?(n: number): 'POST' | 'DELETE';
  body(n: number, name: string): Json;
  /** what the read of the item then shows; the body when absent */
  shows?(n: number): Json;
}

/** Content for an object of any kind, which names what exists in every installation. */
export const makeDraft = (changes: Partial<Draft> = {}): Draft => ({
  ...{ text: 'crun', isHub: false, files: false, image: 'a:1', role: 'microservice', isActivated: true },
  registry: { to: 'registries', ref: 1 },
  source: { to: 'configMaps', ref: 'files' },
  data: { a: 'b' },
  ...changes,
});

/** A node and an application to which the edits refer. */
export const EDITED = { node: 'gw', hub: 'hub', application: 'shop', configMaps: ['site-a', 'site-b'] } as const;

/** Links an object to a node, and removes the link. */
export const LINK: Edit = {
  path: '/link',
  method: (n) => (n % 2 ? 'POST' : 'DELETE'),
  body: () => ({ fogUuids: [EDITED.node] }),
  shows: () => ({}),
};

export const describe: Edit = { body: (n) => ({ description: `text ${n}` }) };

/** An edit of the metadata, for kinds whose spec has no further member. */
export const annotate: Example['kubectl'] = (n) => ({
  metadata: { annotations: { [ANNOTATIONS.protected]: 'false', round: `${n}` } },
});
