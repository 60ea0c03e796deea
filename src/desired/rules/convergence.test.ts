import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeInputs, makeLookups } from '../../../testing/inputs.ts';
import type { Application, EdgeNode, MicroserviceEntry, Registry } from '../../api/v3/index.ts';
import type { Observation } from '../../rules/inputs.ts';
import { makeRegistry } from '../../subjects/catalog/_make.ts';
import { makeNode, makeObservation } from '../../subjects/nodes/_make.ts';
import { requestRebuild } from '../../subjects/nodes/rules/actions.ts';
import { shouldRun } from '../../subjects/nodes/rules/placement/entries.ts';
import { mergeReport } from '../../subjects/nodes/rules/report.ts';
import { makeApplication, makeEntry } from '../../subjects/workloads/_make.ts';
import { applicationStatus } from '../../subjects/workloads/rules/application/status.ts';
import { verdicts } from '../../subjects/workloads/rules/verdicts/verdict.ts';
import type { MicroserviceHold, MicroserviceStatus, MicroserviceView } from '../../wire/agent.ts';
import { desiredState } from './desired.ts';
import { nodeStatus } from './node-status.ts';

/**
 * Everything from an edit to the status that follows it, without a network: users edit, the desired state goes to a
 * machine, the machine applies it and reports, and the status shows the progress.
 */

/** A machine that applies its desired state at once. */
class Machine {
  readonly running = new Map<string, MicroserviceView>();
  private readonly stopped = new Set<string>();

  obey(sent: readonly (MicroserviceView | MicroserviceHold)[]): void {
    const wanted = new Set(sent.map(({ uuid }) => uuid));
    for (const uuid of this.running.keys())
      if (!wanted.has(uuid)) {
        this.running.delete(uuid);
        this.stopped.add(uuid);
      }
    for (const item of sent) if (!('hold' in item)) this.running.set(item.uuid, item);
  }

  /** Reports a stopped microservice once. */
  report(): MicroserviceStatus[] {
    const items = [
      ...[...this.running.values()].map((view) => ({
        id: view.uuid,
        status: 'RUNNING' as const,
        containerId: `c-${view.uuid}-${view.revision}`,
        revision: view.revision,
        rebuildCount: view.rebuildCount,
        ports: view.portMappings,
        startTime: NOW,
      })),
      ...[...this.stopped].map((id) => ({ id, status: 'STOPPED' as const })),
    ];
    this.stopped.clear();
    return items;
  }

  ports(): string[] {
    return [...this.running.values()].flatMap((view) =>
      view.portMappings.map(({ external, protocol }) => `${external}/${protocol}`),
    );
  }
}

const NOW = Date.parse('2026-01-02T00:00:00Z');
const NAMES = ['a', 'b', 'c'] as const;
const APPLICATIONS = ['plant', 'site'] as const;
type Edit =
  | { kind: 'put'; app: (typeof APPLICATIONS)[number]; name: (typeof NAMES)[number]; entry: Partial<MicroserviceEntry> }
  | { kind: 'remove'; app: (typeof APPLICATIONS)[number]; name: (typeof NAMES)[number] }
  | { kind: 'activate'; app: (typeof APPLICATIONS)[number]; on: boolean }
  | { kind: 'rebuild'; app: (typeof APPLICATIONS)[number]; name: (typeof NAMES)[number] }
  | { kind: 'registry'; on: boolean }
  | { kind: 'settle'; rounds: number };

const app = fc.constantFrom(...APPLICATIONS);
const name = fc.constantFrom(...NAMES);
const entry = fc
  .record({
    image: fc.constantFrom('x:1', 'x:2'),
    registry: fc.constantFrom(undefined, 'team'),
    external: fc.constantFrom(undefined, 8080, 8081),
    isActivated: fc.constantFrom(true, true, true, false),
    config: fc.constantFrom(1, 2),
  })
  .map(({ image, registry, external, isActivated, config }) => ({
    images: { amd64: image, ...(registry && { registry }) },
    isActivated,
    config,
    container: external ? { ports: [{ internal: 80, external, protocol: 'tcp' as const }] } : {},
  }));
const edit: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('put' as const), app, name, entry }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), app, name }) },
  fc.record({ kind: fc.constant('activate' as const), app, on: fc.boolean() }),
  fc.record({ kind: fc.constant('rebuild' as const), app, name }),
  fc.record({ kind: fc.constant('registry' as const), on: fc.boolean() }),
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('settle' as const), rounds: fc.integer({ min: 1, max: 2 }) }) },
);

class Fleet {
  applications: Application[] = APPLICATIONS.map((one, index) =>
    makeApplication({
      name: one,
      uid: `2222222${index}-2222-4222-8222-222222222222`,
      createdAt: `2026-01-01T00:00:0${index}Z`,
      entries: [],
    }),
  );
  node: EdgeNode = makeNode({ status: { daemonStatus: 'RUNNING' } });
  registries: Registry[] = [];
  machine = new Machine();
  observation: Observation = makeObservation({ agent: '1.0.0', report: { daemonStatus: 'RUNNING' } });

  edit(one: Edit): void {
    if (one.kind === 'settle') {
      for (let round = 0; round < one.rounds; round++) this.round();
      return;
    }
    if (one.kind === 'registry') {
      this.registries = one.on ? [makeRegistry('team', { id: 12 })] : [];
      return;
    }
    this.applications = this.applications.map((application) =>
      application.metadata.name === one.app ? edited(application, one) : application,
    );
  }

  inputs() {
    return makeInputs({ node: this.node, applications: this.applications, registries: this.registries });
  }

  /** One poll, one report, one reconcile of each object. */
  round(): void {
    const desired = desiredState(this.inputs());
    this.machine.obey(desired.microservices);
    const report = mergeReport(this.observation.report, { microserviceStatus: this.machine.report() });
    this.observation = { ...this.observation, report, contactAt: NOW, reportedAt: NOW };
    const status = nodeStatus({
      node: this.node,
      observation: this.observation,
      desired: desiredState(this.inputs()),
      now: NOW,
      listeningSince: 0,
    });
    this.node = { ...this.node, status };
    this.applications = this.applications.map((application) => ({
      ...application,
      status: applicationStatus({
        application,
        verdicts: verdicts(application, this.lookups()),
        nodes: [{ node: this.node, liveness: 'live', desired: desiredState(this.inputs()) }],
        now: new Date(NOW).toISOString(),
      }),
    }));
  }

  lookups() {
    return makeLookups({ nodes: [this.node], applications: this.applications, registries: this.registries });
  }
}

function edited(application: Application, one: Exclude<Edit, { kind: 'settle' | 'registry' }>): Application {
  const entries = application.spec.microservices ?? [];
  const others = entries.filter((existing) => !('name' in one) || existing.name !== one.name);
  const generation = (application.metadata.generation ?? 1) + 1;
  const withSpec = (spec: Partial<Application['spec']>): Application => ({
    ...application,
    metadata: { ...application.metadata, generation },
    spec: { ...application.spec, ...spec },
  });
  switch (one.kind) {
    case 'put':
      return withSpec({ microservices: [...others, makeEntry({ ...one.entry, name: one.name })] });
    case 'remove':
      return withSpec({ microservices: others });
    case 'activate':
      return withSpec({ isActivated: one.on });
    case 'rebuild':
      return {
        ...application,
        metadata: {
          ...application.metadata,
          annotations: { ...application.metadata.annotations, ...requestRebuild(application, [one.name]) },
        },
      };
  }
}

const ready = (application: Application) => application.status?.conditions?.find(({ type }) => type === 'Ready');

describe('after any sequence of edits, failures and reports', () => {
  const story = fc.array(edit, { maxLength: 14 });

  it('no two microservices in the desired state of a node claim one port', () => {
    fc.assert(
      fc.property(story, (edits) => {
        const fleet = new Fleet();
        for (const one of edits) {
          fleet.edit(one);
          const sent = desiredState(fleet.inputs()).microservices.flatMap((item) =>
            'hold' in item ? [] : item.portMappings.map(({ external }) => external),
          );
          expect(new Set(sent).size).toBe(sent.length);
          const held = fleet.machine.ports();
          expect(new Set(held).size).toBe(held.length);
        }
      }),
    );
  });

  it('removed and stopped microservices end, admitted ones run as asked, and the status shows both', () => {
    fc.assert(
      fc.property(story, (edits) => {
        const fleet = new Fleet();
        for (const one of edits) fleet.edit(one);
        for (let round = 0; round < 4; round++) fleet.round();
        const lookups = fleet.lookups();
        for (const application of fleet.applications) {
          const negative = verdicts(application, lookups);
          const wanted = (application.spec.microservices ?? []).filter((one) => shouldRun(application, one));
          const refused = wanted.filter((one) => negative.has(one.name));
          expect([...negative.values()].filter(({ passes }) => passes)).toEqual([]);
          expect(ready(application)?.status).toBe(refused.length > 0 ? 'False' : 'True');
          expect(application.status?.ready).toBe(`${wanted.length - refused.length}/${wanted.length}`);
          const runs = [...fleet.machine.running.values()].filter(
            (view) => view.application === application.metadata.name,
          );
          for (const one of wanted)
            if (!negative.has(one.name)) expect(runs.map((view) => view.name)).toContain(one.name);
          for (const view of runs) expect(wanted.map((one) => one.name)).toContain(view.name);
        }
      }),
    );
  });

  it('without a change, no digest and no status changes, so that nothing is written', () => {
    fc.assert(
      fc.property(story, (edits) => {
        const fleet = new Fleet();
        for (const one of edits) fleet.edit(one);
        for (let round = 0; round < 4; round++) fleet.round();
        const { node, applications } = fleet;
        const { digests } = desiredState(fleet.inputs());
        fleet.round();
        expect(fleet.node).toEqual(node);
        expect(fleet.applications).toEqual(applications);
        expect(desiredState(fleet.inputs()).digests).toEqual(digests);
      }),
    );
  });

  it('Ready is never True while a machine runs anything other than what is asked for', () => {
    fc.assert(
      fc.property(story, (edits) => {
        const fleet = new Fleet();
        for (const one of edits) {
          fleet.edit(one);
          if (one.kind !== 'settle') continue;
          for (const application of fleet.applications) {
            if (ready(application)?.status !== 'True') continue;
            const asked = desiredState(fleet.inputs()).microservices;
            const runs = [...fleet.machine.running.values()].filter(
              (view) => view.application === application.metadata.name,
            );
            const wanted = asked.filter((item) => 'hold' in item || item.application === application.metadata.name);
            for (const view of runs)
              expect(wanted).toContainEqual(
                expect.objectContaining({ uuid: view.uuid, revision: view.revision, rebuildCount: view.rebuildCount }),
              );
          }
        }
      }),
    );
  });
});
