import { z } from 'zod';
import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import { type RegistryView, registryViewSchema } from '../../../src/wire/agent.ts';
import { AgentError, saving } from '../domain/agent-error.ts';
import type { Part } from '../domain/part.ts';
import type { Policy } from '../domain/policy.ts';
import { LOCAL_REGISTRY_IDS, localRegistryNumber } from '../domain/registry-number.ts';
import { isAllowed } from '../domain/target.ts';
import type { Rows } from '../state/rows.ts';

/** A registry that was defined on this machine, under the id that people know. Its row is the only copy. */
export const localRegistrySchema = registryViewSchema.extend({
  id: z.int().min(LOCAL_REGISTRY_IDS.first).max(LOCAL_REGISTRY_IDS.last),
  type: z.enum(['oci', 'hub']),
});
export type LocalRegistry = z.infer<typeof localRegistrySchema>;

/** A registry as a manifest describes it; without an id it is known by type and url. */
export type RegistryManifest = Omit<LocalRegistry, 'id'> & { id?: number | undefined };

const PLAIN = { isPublic: true, username: '', password: '', userEmail: '', ca: '', insecure: false };

/** Registries that every machine has, which nobody changes. */
const BUILT_IN: readonly RegistryView[] = [
  { ...PLAIN, id: BUILT_IN_REGISTRIES.remote.id, url: 'docker.io', type: 'oci' },
  { ...PLAIN, id: BUILT_IN_REGISTRIES.local.id, url: 'from_cache', type: 'oci' },
  { ...PLAIN, id: 3, url: 'https://huggingface.co', type: 'hub' },
];

export interface LocalRegistriesDependencies {
  rows: Rows<LocalRegistry>;
  clock: Clock;
  log: Log;
  policy(): Pick<Policy, 'registries'>;
  /** what of this machine names the registry of this number in views, for people */
  usersOf(number: number): string[];
  /** The registries of these numbers are others now. */
  changed(numbers: ReadonlySet<number>): void;
}

/** The registries of the machine itself: a space of ids of their own beside those of the controller. */
export class LocalRegistries implements Part {
  readonly #deps: LocalRegistriesDependencies;

  constructor(deps: LocalRegistriesDependencies) {
    this.#deps = deps;
  }

  /** All of them, by id; the ids are those that people know. */
  get all(): readonly RegistryView[] {
    const own = [...this.#deps.rows.all.values()].sort((a, b) => a.id - b.id);
    return [...BUILT_IN, ...own];
  }

  /** As views name them. */
  get views(): ReadonlyMap<number, RegistryView> {
    const views = this.all.map((registry) => ({ ...registry, id: localRegistryNumber(registry.id) }));
    return new Map(views.filter(({ id }) => id < 0).map((view) => [view.id, view]));
  }

  get ownProblems(): string[] {
    return [...this.#deps.rows.unreadable].map(
      ([id, why]) =>
        `local registry ${id}: of its file ${why}. Deploy it again, or remove it: skerry-agent registry rm ${id}`,
    );
  }

  /** Throws NOT_FOUND. */
  get(id: number): RegistryView {
    const found = this.all.find((registry) => registry.id === id);
    if (found) return found;
    const unreadable = this.#deps.rows.unreadable.get(String(id));
    if (unreadable) throw new AgentError('UNAVAILABLE', `registry ${id} cannot be read: of its file ${unreadable}`);
    const ids = this.all.map((registry) => registry.id).join(', ');
    throw new AgentError('NOT_FOUND', `this machine has no registry ${id}; it has ${ids}`);
  }

  /** Whether the policy of the machine lets something come from it. */
  isAllowed(id: number): boolean {
    return isAllowed(this.get(id), this.#deps.policy());
  }

  /** The registry as it would be after `apply`. Throws an AgentError that says why it cannot be. */
  judge(manifest: RegistryManifest): LocalRegistry {
    const registry = this.#numbered(manifest);
    if (isAllowed(registry, this.#deps.policy())) return registry;
    throw new AgentError(
      'INVALID_ARGUMENT',
      'spec.url: the policy of this machine takes nothing from this host: its "registries" can name it',
    );
  }

  #numbered({ id: asked, ...spec }: RegistryManifest): LocalRegistry {
    const { all, unreadable } = this.#deps.rows;
    if (asked !== undefined && asked < LOCAL_REGISTRY_IDS.first)
      throw new AgentError(
        'INVALID_ARGUMENT',
        `spec.id: ${asked} is built in; ids of registries begin with ${LOCAL_REGISTRY_IDS.first}`,
      );
    const isSame = (each: RegistryView) => each.type === spec.type && sameUrl(each.url, spec.url);
    const known = asked === undefined ? undefined : all.get(String(asked));
    if (known && !isSame(known))
      throw new AgentError(
        'CONFLICT',
        `spec.id: ${asked} is the registry ${known.url} of the type ${known.type}; leave the id out for another one, or remove that first`,
      );
    if (asked !== undefined) return { ...spec, id: asked };
    const [same, second] = [...all.values()].filter(isSame);
    if (same && second)
      throw new AgentError(
        'INVALID_ARGUMENT',
        `spec.id: say which one: ${[...all.values()]
          .filter(isSame)
          .map(({ id }) => id)
          .join(', ')} have this type and url`,
      );
    const used = [...all.keys(), ...unreadable.keys()].map(Number);
    const id = same?.id ?? Math.max(LOCAL_REGISTRY_IDS.first - 1, ...used) + 1;
    if (id > LOCAL_REGISTRY_IDS.last)
      throw new AgentError('INVALID_ARGUMENT', `spec.id: name one that is free, up to ${LOCAL_REGISTRY_IDS.last}`);
    return { ...spec, id };
  }

  /** Defines a registry, or changes it: what waits for it then begins again. It is durable when this returns. */
  apply(manifest: RegistryManifest): LocalRegistry {
    const registry = this.judge(manifest);
    saving('no registry was changed', () => this.#deps.rows.save(String(registry.id), registry));
    this.#deps.log.info({ registry: registry.id }, 'Defined a registry on this machine');
    this.#deps.changed(new Set([localRegistryNumber(registry.id)]));
    return registry;
  }

  /** Throws CONFLICT while something of this machine names it. */
  remove(id: number): void {
    const { rows } = this.#deps;
    if (BUILT_IN.some((each) => each.id === id))
      throw new AgentError('INVALID_ARGUMENT', `registry ${id} is built in and cannot be removed`);
    if (!rows.unreadable.has(String(id))) this.get(id);
    const users = this.#deps.usersOf(localRegistryNumber(id));
    if (users.length > 0)
      throw new AgentError('CONFLICT', `registry ${id} is in use: ${users.slice(0, 8).join(', ')}; change these first`);
    saving('no registry was removed', () => rows.remove(String(id)));
    this.#deps.log.info({ registry: id }, 'Removed a registry of this machine');
    this.#deps.changed(new Set([localRegistryNumber(id)]));
  }
}

const sameUrl = (a: string, b: string): boolean => plain(a) === plain(b);
/** Hosts are the same in any case, and so is a url with a slash at its end. */
const plain = (url: string): string => url.toLowerCase().replace(/\/$/, '');
