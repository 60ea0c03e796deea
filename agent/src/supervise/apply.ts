import type { ArtifactWait } from '../domain/artifact.ts';
import type { Sent } from '../domain/desired.ts';
import type { Part } from '../domain/part.ts';
import type { PolicyContext } from '../domain/policy.ts';
import type { ViewRules } from '../domain/sent-microservices.ts';
import { pullReference, viewRefusal } from '../domain/target.ts';
import type { Resolution } from '../domain/volume-mounts.ts';
import { type Desired, NOTHING_KNOWN } from '../domain/wanted.ts';

export interface ApplyDependencies {
  /** of all sources */
  wanted: {
    readonly sent: Sent;
    desired(rules: ViewRules): Desired;
  };
  policy: PolicyContext;
  parts: readonly Part[];
  supervisor: {
    setDesired(desired: Desired, waitOf: (uuid: string) => ArtifactWait | undefined): void;
    registriesChanged(ids: ReadonlySet<number>): void;
  };
  /** The settings in force may be others. */
  settingsChanged(): void;
}

interface Applying extends ApplyDependencies {
  /** those that differ, by id */
  registries: ReadonlySet<number>;
  desired: Desired;
}

/** The steps by which the desired state is applied, in this order. */
const STEPS: readonly { step: string; why: string; act(applying: Applying): void }[] = [
  {
    step: 'settings',
    why: 'all that follows is logged at the level in force',
    act: ({ settingsChanged }) => settingsChanged(),
  },
  {
    step: 'write',
    why: 'an entry names the files that its container binds, and waits for those that are missing',
    act: ({ parts, wanted }) => each(parts, (part) => part.write?.(wanted.sent)),
  },
  {
    step: 'entries',
    why: 'they are made from policy, registries and files',
    act: (applying) => {
      applying.desired = applying.wanted.desired(rulesOf(applying));
    },
  },
  {
    step: 'prepare',
    why: 'the supervisor may start a container as soon as it has the entry, and the container then has its token',
    act: ({ parts, desired }) => each(parts, (part) => part.prepare?.(desired.entries)),
  },
  {
    step: 'containers',
    why: 'what follows reads the entries of the supervisor',
    act: ({ supervisor, desired, parts }) =>
      supervisor.setDesired(desired, (uuid) => parts.map((part) => part.waitOf?.(uuid)).find(Boolean)),
  },
  {
    step: 'images',
    why: 'of the images of changed registries those of the new entries are pulled again',
    act: ({ supervisor, registries }) => supervisor.registriesChanged(registries),
  },
  {
    step: 'look',
    why: 'artifacts are planned from the entries that bind them',
    act: ({ parts, wanted }) => each(parts, (part) => part.look?.(wanted.sent)),
  },
  {
    step: 'registries',
    why: 'of the artifacts of changed registries those of the new lists are pulled again',
    act: ({ parts, registries }) => each(parts, (part) => part.registriesChanged?.(registries)),
  },
];

/**
 * Applies the present desired state: at the start, after a response, with another policy, and when a part tries something
 * again. `registries` are those that differ from what was applied last.
 */
export function applyDesired(deps: ApplyDependencies, registries: ReadonlySet<number> = new Set()): void {
  const applying: Applying = { ...deps, registries, desired: NOTHING_KNOWN };
  for (const { act } of STEPS) act(applying);
}

function rulesOf({ wanted, policy, parts }: Applying): ViewRules {
  const { registries } = wanted.sent;
  return {
    refusal: (view) => viewRefusal(view, registries, policy),
    resolve: (view) =>
      parts.reduce<Resolution>((resolved, part) => ('view' in resolved && part.resolve?.(resolved.view)) || resolved, {
        view,
      }),
    pullReference: (view) => pullReference(view, registries),
  };
}

function each(parts: readonly Part[], act: (part: Part) => void): void {
  for (const part of parts) act(part);
}
