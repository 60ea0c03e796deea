import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home, OtherContainer } from '../_home.ts';
import { EngineObserver } from '../_observer.ts';
import { pushVersions, webView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine, outsideOf } from '../engines/_outside.ts';
import { FakeController, type View } from '../link/_fake-controller.ts';

/**
 * The agent's process is killed at every operation and started again. In the normal run it is killed after each operation
 * of the engine, before it records the result, in the stories that have each kind of operation. With SKERRY_NIGHTLY all stories
 * run; it is also killed before each operation, and before and after each commit of its database.
 */

const on = firstEngine();
const engineUrl = on.url;
const registry = new URL(inject('registryUrl')).host;
const image = (tag: string) => `${registry}/killed/sample:${tag}`;
const FAILPOINTS = join(import.meta.dirname, '_failpoints.ts');
const LONG = Boolean(process.env.SKERRY_NIGHTLY);

let other: OtherContainer;
beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'killed/sample', '1', '2');
  await outsideOf(on).pull(image('1'));
  other = await OtherContainer.start(on, { name: `skerry-${randomUUID()}`, image: image('1') });
});
afterAll(() => other?.remove());

/** One machine with its controller, and two microservices. */
class Fixture {
  readonly home = new Home({ engineUrl });
  readonly web = randomUUID();
  readonly api = randomUUID();
  readonly observer = new EngineObserver(on, [this.web, this.api]);
  readonly ports: number[];
  readonly controller: FakeController;
  #serial = 0;

  private constructor(controller: FakeController, ports: number[]) {
    this.controller = controller;
    this.ports = ports;
  }

  static async open(): Promise<Fixture> {
    const controller = await new FakeController().listen();
    const fixture = new Fixture(controller, [await freePort(), await freePort()]);
    await fixture.home.up({ imports: [FAILPOINTS] });
    expect(await fixture.home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
    return fixture;
  }

  async close(): Promise<void> {
    this.observer.close();
    await this.home.remove();
    await this.controller.close();
  }

  /** A view of a microservice at one of the ports; each call gives another revision. */
  view(uuid: string, port: number, change: Partial<View> = {}): View {
    const name = uuid === this.web ? 'web' : 'api';
    const its = { uuid, name, imageId: image('1'), revision: `r-${++this.#serial}`, external: this.ports[port] ?? 0 };
    return webView(its, change);
  }

  want(views: View[]): void {
    this.controller.change({ microservices: views });
  }

  /** Makes the process end at the n-th moment from now; 0: never. Returns false when it has already ended. */
  async arm(at: number): Promise<boolean> {
    const { process: child } = this.home;
    if (!child?.connected) return false;
    const acknowledged = new Promise<boolean>((resolve) => {
      child.once('message', () => resolve(true));
      child.once('exit', () => resolve(false));
    });
    child.send({ arm: at, of: LONG ? 'all' : 'engine' }, () => {});
    return acknowledged;
  }

  /**
   * Waits until exactly these containers exist, under their names, and are reported. They are looked at last: a report comes
   * before the old container is removed, and such steps would count as those of the next change.
   */
  async settled(end: End[]): Promise<void> {
    for (const uuid of [this.web, this.api]) {
      const wanted = end.find((each) => each.uuid === uuid);
      await until(
        'the report of it',
        () => {
          const status = this.controller.microservice(uuid);
          if (!wanted) return status === undefined || status.status === 'STOPPED';
          return Object.entries(wanted.reported).every(([key, value]) => status?.[key as 'reason'] === value);
        },
        90_000,
      );
      if (wanted?.answer)
        await until(
          `${wanted.answer.text} at ${wanted.answer.port}`,
          async () =>
            (await (await fetch(`http://127.0.0.1:${wanted.answer?.port}/`)).text()).trim() === wanted.answer?.text,
        );
    }
    const expected = end.map(({ uuid, state = 'running' }) => `skerry-${uuid} ${state}`).sort();
    await until(
      `${expected} and no more`,
      async () => {
        const all = (await this.home.containers()).map(({ name, state }) => `${name} ${state}`).sort();
        return JSON.stringify(all) === JSON.stringify(expected);
      },
      90_000,
    );
  }

  up(view: View, text: string, reported: End['reported'] = { status: 'RUNNING', revision: view.revision }): End {
    return { uuid: view.uuid, reported, answer: { port: view.portMappings?.[0]?.external ?? 0, text } };
  }
}

/** The expected container, report and response of one microservice at the end. */
interface End {
  uuid: string;
  state?: string;
  reported: { status: string; revision?: string; reason?: string; rebuildCount?: number };
  answer?: { port: number; text: string };
}

interface Round {
  /** the desired state before */
  from: View[];
  /** the change during which the agent is killed; false: the request was lost and has to be repeated */
  act: () => unknown;
  end: End[];
}

interface Case {
  /** arranges the next round */
  round: (fixture: Fixture, count: number) => Round;
  /** the number of container starts, which must not depend on when the agent is killed */
  starts: number;
  /** the least number of kills: one after each operation of the engine but the last, which may come too late */
  deaths: number;
  /** the normal run leaves it out, since an edit or a swap of ports has its operations */
  isCovered?: boolean;
  /** the normal run tries only every n-th operation, since another case covers the rest */
  everyNth?: number;
  /** the normal run also kills before each operation, where there is only one */
  before?: boolean;
}

const CASES: Record<string, Case> = {
  'during a start': {
    round: (fixture) => {
      const to = fixture.view(fixture.web, 0);
      return { from: [], act: () => fixture.want([to]), end: [fixture.up(to, '1')] };
    },
    starts: 1,
    // network, create and start; there is a network from the second round on
    deaths: 1,
    isCovered: true,
  },
  'during an edit': {
    round: (fixture) => {
      const to = fixture.view(fixture.web, 0, { imageId: image('2') });
      return { from: [fixture.view(fixture.web, 0)], act: () => fixture.want([to]), end: [fixture.up(to, '2')] };
    },
    starts: 1,
    // pull, create, stop, start, remove and rename
    deaths: 5,
  },
  'during an edit whose container cannot start, so that the old one starts again': {
    round: (fixture) => {
      const from = fixture.view(fixture.web, 0);
      const to = fixture.view(fixture.web, 0, { imageId: image('2'), entrypoint: ['/no/such/program'] });
      const reported = { status: 'RUNNING', reason: 'StartFailed', revision: from.revision };
      return { from: [from], act: () => fixture.want([to]), end: [fixture.up(from, '1', reported)] };
    },
    starts: 1,
    // pull, create, stop, start, start of the old one and remove
    deaths: 5,
  },
  'during a move to another port': {
    round: (fixture) => {
      const to = fixture.view(fixture.web, 1);
      return { from: [fixture.view(fixture.web, 0)], act: () => fixture.want([to]), end: [fixture.up(to, '1')] };
    },
    starts: 1,
    deaths: 2,
    isCovered: true,
  },
  'during a swap of ports': {
    round: (fixture) => {
      const to = [
        fixture.view(fixture.web, 1),
        fixture.view(fixture.api, 0, { env: [{ key: 'GREETING', value: 'api' }] }),
      ];
      const from = [
        fixture.view(fixture.web, 0),
        fixture.view(fixture.api, 1, { env: [{ key: 'GREETING', value: 'api' }] }),
      ];
      const end = to.map((view, i) => fixture.up(view, i === 0 ? '1' : 'api'));
      return { from, act: () => fixture.want(to), end };
    },
    starts: 2,
    deaths: 3,
    everyNth: 3,
  },
  'during a rebuild': {
    round: (fixture, count) => {
      const from = fixture.view(fixture.web, 0, { rebuildCount: count });
      const to = { ...from, rebuildCount: count + 1 };
      const reported = { status: 'RUNNING', revision: from.revision, rebuildCount: count + 1 };
      return { from: [from], act: () => fixture.want([to]), end: [fixture.up(to, '1', reported)] };
    },
    starts: 1,
    deaths: 3,
    isCovered: true,
  },
  'during a removal': {
    round: (fixture) => ({ from: [fixture.view(fixture.web, 0)], act: () => fixture.want([]), end: [] }),
    starts: 0,
    // stop and remove
    deaths: 1,
  },
  'during a local stop': {
    round: (fixture) => ({
      from: [fixture.view(fixture.web, 0)],
      act: async () => (await fixture.home.cli('ms', 'stop', 'web')).code === 0,
      end: [{ uuid: fixture.web, state: 'exited', reported: { status: 'STOPPED', reason: 'StoppedLocally' } }],
    }),
    starts: 0,
    deaths: 1,
    before: true,
  },
};

describe.concurrent('an agent that is killed at any moment reaches the same end', () => {
  for (const [name, each] of Object.entries(CASES))
    test.runIf(LONG || !each.isCovered)(name, { timeout: LONG ? 3600_000 : 600_000 }, async ({ expect }) => {
      const fixture = await Fixture.open();
      try {
        const { home, controller, observer } = fixture;
        let deaths = 0;
        const everyMoment = LONG || each.before;
        for (let at = everyMoment ? 1 : 2; ; at += everyMoment ? 1 : 2 * (each.everyNth ?? 1)) {
          const { from, act, end } = each.round(fixture, at);
          fixture.want(from);
          await fixture.settled(from.map((view) => fixture.up(view, view.env?.[0]?.value ?? '1')));
          (await observer.read()).forget();
          expect(await fixture.arm(at)).toBe(true);
          const died = home.gone().then(() => true);
          const accepted = await act();
          // The last operation may be visible here before the process has died.
          const { process: child } = home;
          const disarmed = fixture.settled(end).then(async () => home.process === child && !(await fixture.arm(0)));
          const wasKilled = await Promise.race([died, disarmed]);
          if (wasKilled) {
            deaths++;
            expect(home.process?.signalCode).toBe('SIGKILL');
            controller.said = {};
            await home.up({ imports: [FAILPOINTS] });
            if (accepted === false) expect(await act()).toBe(true);
            await fixture.settled(end);
          }
          await observer.read();
          const starts = [fixture.web, fixture.api].reduce((sum, uuid) => sum + (observer.starts.get(uuid) ?? 0), 0);
          expect(starts, `starts, having died at moment ${at}`).toBe(each.starts);
          expect(observer.doubles).toEqual([]);
          for (const uuid of [fixture.web, fixture.api])
            expect(controller.microservice(uuid)?.restartCount ?? 0).toBe(0);
          expect(await other.untouched()).toBe(true);
          if (!wasKilled) break;
        }
        expect(deaths).toBeGreaterThanOrEqual(each.deaths);
      } finally {
        await fixture.close();
      }
    });
});
