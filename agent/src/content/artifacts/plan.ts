import { type ArtifactView, artifactFingerprint } from '../../../../src/wire/artifacts.ts';
import {
  ARTIFACT_KINDS,
  type ArtifactCatalog,
  type ArtifactKind,
  isArtifactName,
  type ProjectionPlace,
} from '../../domain/artifact.ts';
import { nameOfVersion, type ProjectionState, projectedName } from './projection.ts';
import { type ArtifactKey, type ArtifactRecord, artifactKey } from './record.ts';
import { isUnwantedContent, viewNamed, type WantedArtifacts, wantedViews } from './wanted.ts';

/** Pulls of one kind at the same time; files of one artifact come one after another. */
const PULLS = 2;
/** Of these, pulls of present contents that microservices asked for: another pull never waits for them. */
const PATIENT_PULLS = 1;

/** An attempt that failed, at what is named by its key. */
export interface ArtifactFailure {
  /** what was attempted: another one is tried at once */
  asked: string;
  message: string;
  count: number;
  notBefore: number;
  /** there was no room: what nothing uses makes some */
  lacksRoom?: boolean;
}

/** Everything that a plan is made from. */
export interface ArtifactPlanInput extends WantedArtifacts {
  /** of the microservices that are to run; undefined while that is not known */
  catalogs: readonly ArtifactCatalog[] | undefined;
  /** microservices that may not be changed now */
  held: ReadonlySet<string>;
  /** nothing that is absent from a list is removed */
  retains: boolean;
  records: ReadonlyMap<ArtifactKey, ArtifactRecord>;
  projections: readonly ProjectionState[];
  /** whether a container, running or not, mounts a projection */
  isMounted(place: ProjectionPlace): boolean;
  /** by `stepKey` */
  failures: ReadonlyMap<string, ArtifactFailure>;
  /** what is being pulled, by what it is pulled for */
  underWay: ReadonlyMap<ArtifactKey, string>;
  /** artifacts whose revision is to be looked up again, where it is a floating one */
  lookUpsDue: ReadonlySet<ArtifactKey>;
  /** artifacts that are pulled although they are here: their revision means another content now, or somebody has asked for it */
  outdated: ReadonlySet<ArtifactKey>;
  /** of these, those that microservices alone have asked for */
  patient: ReadonlySet<ArtifactKey>;
  /** the kinds of which what nothing uses is removed: on request, or because the disk is short of space */
  prune: ReadonlySet<ArtifactKind>;
  /** artifacts of the machine itself whose contents are to go, once nothing shows them */
  removed: ReadonlySet<ArtifactKey>;
  now: number;
}

export type ArtifactStep =
  | { do: 'pull'; kind: ArtifactKind; view: ArtifactView }
  | { do: 'look-up'; kind: ArtifactKind; view: ArtifactView; record: ArtifactRecord }
  | { do: 'put'; catalog: ArtifactCatalog; name: string; record: ArtifactRecord; discard: string[] }
  | { do: 'unlink'; place: ProjectionPlace; name: string }
  | { do: 'discard'; place: ProjectionPlace; versions: string[] }
  | { do: 'remove'; place: ProjectionPlace }
  | { do: 'forget'; record: ArtifactRecord };

/** Names an item of a projection, for its failures. */
export const itemKey = ({ kind, uuid, mode }: ProjectionPlace, name: string) => `${kind}/${uuid}/${mode}/${name}`;

/** Names the look-up of an artifact, for its failures. */
export const lookUpKey = (kind: ArtifactKind, { uuid }: Pick<ArtifactView, 'uuid'>) =>
  `${artifactKey({ kind, uuid })}/look-up`;

/** Names what a step works on: of what has failed there, the next attempt waits, and nothing else does. */
export function stepKey(step: ArtifactStep): string {
  switch (step.do) {
    case 'pull':
      return artifactKey({ kind: step.kind, uuid: step.view.uuid });
    case 'look-up':
      return lookUpKey(step.kind, step.view);
    case 'put':
      return itemKey(step.catalog, step.name);
    case 'unlink':
      return itemKey(step.place, step.name);
    case 'discard':
    case 'remove':
      return `${step.place.kind}/${step.place.uuid}/${step.place.mode}`;
    case 'forget':
      return `${artifactKey(step.record)}/record`;
    default:
      return step satisfies never;
  }
}

/** Whether a step ends later than its turn. */
export const runsBeside = (step: ArtifactStep) => step.do === 'pull' || step.do === 'look-up';

/** The artifact whose pull or look-up has failed, by the key of that failure; undefined for another step. */
export function artifactOf(key: string): ArtifactKey | undefined {
  return /^(models|knowledge)\/[^/]+(?=$|\/look-up$)/.exec(key)?.[0] as ArtifactKey | undefined;
}

/** What is attempted there; another attempt does not wait for a former one's failure. */
export function attemptOf(step: ArtifactStep): string {
  if (step.do === 'pull' || step.do === 'look-up') return artifactFingerprint(step.view);
  return step.do === 'put' ? projectedName(step.name, step.record) : step.do;
}

function isDue(step: ArtifactStep, { failures, now }: ArtifactPlanInput): boolean {
  const failure = failures.get(stepKey(step));
  return !failure || failure.asked !== attemptOf(step) || now >= failure.notBefore;
}

/** Whether two places are the same projection. */
export const samePlace = (a: ProjectionPlace, b: ProjectionPlace) =>
  a.kind === b.kind && a.uuid === b.uuid && a.mode === b.mode;

/**
 * Decides what to do about artifacts and their projections: what to pull, what to link where, and what to remove. Pure.
 *
 * Guarantees:
 * - a projection shows a content that is complete, and goes on showing its last one until the next one is complete;
 * - nothing that a container mounts is removed, nor what a microservice on hold may need;
 * - nothing is removed for being absent from a list that is not known;
 * - what has failed waits for its own next attempt, and holds up nothing else.
 */
export function planArtifacts(input: ArtifactPlanInput): ArtifactStep[] {
  const steps = [...planRemovals(input), ...planProjections(input), ...planPrune(input)];
  return [...steps.filter((step) => isDue(step, input)), ...planPulls(input), ...planLookUps(input)];
}

/** The complete content of what is asked for now, if it is here. */
export function currentRecord(
  { records }: Pick<ArtifactPlanInput, 'records'>,
  kind: ArtifactKind,
  view: ArtifactView,
): ArtifactRecord | undefined {
  const record = records.get(artifactKey({ kind, uuid: view.uuid }));
  return record?.asked === artifactFingerprint(view) ? record : undefined;
}

function planPulls(input: ArtifactPlanInput): ArtifactStep[] {
  const { underWay, outdated, patient, catalogs = [] } = input;
  const waited = new Set(catalogs.flatMap(({ kind, items }) => items.map((name) => `${kind}/${name}`)));
  const isMissing = (kind: ArtifactKind, view: ArtifactView) =>
    isArtifactName(view.name) &&
    (!currentRecord(input, kind, view) || outdated.has(artifactKey({ kind, uuid: view.uuid }))) &&
    !underWay.has(artifactKey({ kind, uuid: view.uuid }));
  const due = ARTIFACT_KINDS.flatMap((kind) =>
    wantedViews(input, kind)
      .filter((view) => isMissing(kind, view))
      .map((view) => ({ do: 'pull', kind, view }) as const)
      .filter((step) => isDue(step, input)),
  );
  const isPatient = ({ kind, view }: (typeof due)[number]) =>
    patient.has(artifactKey({ kind, uuid: view.uuid })) && currentRecord(input, kind, view) !== undefined;
  // What a microservice waits for comes first.
  const rank = ({ kind, view }: (typeof due)[number]) => (waited.has(`${kind}/${view.name}`) ? 0 : 1);
  due.sort((a, b) => rank(a) - rank(b));
  return ARTIFACT_KINDS.flatMap((kind) => {
    const running = [...underWay.keys()].filter((key) => key.startsWith(`${kind}/`));
    const own = due.filter((step) => step.kind === kind);
    const patientPlaces = PATIENT_PULLS - running.filter((key) => patient.has(key)).length;
    const patientOnes = own.filter(isPatient).slice(0, Math.max(0, patientPlaces));
    const ordered = [...own.filter((step) => !isPatient(step)), ...patientOnes];
    return ordered.slice(0, Math.max(0, PULLS - running.length));
  });
}

/** One at a time: of the artifacts that are here for what is asked, those with the name of a branch or a tag. */
function planLookUps(input: ArtifactPlanInput): ArtifactStep[] {
  const { lookUpsDue, outdated, underWay } = input;
  const steps = ARTIFACT_KINDS.flatMap((kind) =>
    wantedViews(input, kind).flatMap((view): ArtifactStep[] => {
      const key = artifactKey({ kind, uuid: view.uuid });
      const record = lookUpsDue.has(key) ? currentRecord(input, kind, view) : undefined;
      if (!record?.floating || outdated.has(key) || underWay.has(key)) return [];
      return [{ do: 'look-up', kind, view, record }];
    }),
  );
  return steps.filter((step) => isDue(step, input)).slice(0, 1);
}

function planProjections({ projections, ...input }: ArtifactPlanInput): ArtifactStep[] {
  const { catalogs = [] } = input;
  return catalogs.flatMap((catalog): ArtifactStep[] => {
    const present = projections.find((each) => samePlace(each, catalog));
    return catalog.items.flatMap((name): ArtifactStep[] => {
      const view = viewNamed(input, catalog.kind, { name, microservice: catalog.uuid });
      const record = view && isArtifactName(name) ? currentRecord(input, catalog.kind, view) : undefined;
      if (!record) return [];
      const version = projectedName(name, record);
      const linked = present?.links.get(name);
      if (linked === version) return [];
      const former = (present?.versions ?? []).filter((each) => nameOfVersion(each) === name && each !== linked);
      // A copy that was written to is not the content any more.
      const discard = former.filter((each) => each !== version || catalog.mode === 'rw');
      return [{ do: 'put', catalog, name, record, discard }];
    });
  });
}

function planRemovals({ projections, catalogs, held, retains, isMounted }: ArtifactPlanInput): ArtifactStep[] {
  if (!catalogs) return [];
  return projections.flatMap((present): ArtifactStep[] => {
    const { kind, uuid, mode, links, versions } = present;
    if (held.has(uuid)) return [];
    const place = { kind, uuid, mode };
    const catalog = catalogs.find((each) => samePlace(each, present));
    if (!catalog) return isMounted(place) || retains ? [] : [{ do: 'remove', place }];
    const gone = [...links.keys()].filter((name) => !catalog.items.includes(name));
    const left = versions.filter((version) => !catalog.items.includes(nameOfVersion(version)));
    return [
      ...gone.map((name): ArtifactStep => ({ do: 'unlink', place, name })),
      ...(left.length > 0 ? [{ do: 'discard', place, versions: left } satisfies ArtifactStep] : []),
    ];
  });
}

/** What no list names and no projection shows, and contents that were replaced. */
function planPrune(input: ArtifactPlanInput): ArtifactStep[] {
  const { removed, retains, records, projections, underWay } = input;
  const prune: ArtifactPlanInput['prune'] = retains ? new Set() : input.prune;
  if (prune.size + removed.size === 0) return [];
  const unused = [...records.values()].filter((record) => {
    const { kind, name } = record;
    const isAsked = prune.has(kind) || removed.has(artifactKey(record));
    if (!isAsked || !isUnwantedContent(input, record) || underWay.has(artifactKey(record))) return false;
    const version = projectedName(name, record);
    return !projections.some((each) => each.kind === kind && each.links.get(name) === version);
  });
  const replaced = projections.flatMap(({ links, versions, ...place }): ArtifactStep[] => {
    if (!prune.has(place.kind)) return [];
    const linked = new Set(links.values());
    const old = versions.filter((version) => !linked.has(version));
    return old.length > 0 ? [{ do: 'discard', place, versions: old }] : [];
  });
  return [...unused.map((record): ArtifactStep => ({ do: 'forget', record })), ...replaced];
}
