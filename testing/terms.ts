import type { KubeClient, Leadership, Term } from '../src/kube/mod.ts';

/** The leadership of a process without an election: it leads from `join` on, in one term after another. */
export function createTerms(client: KubeClient, now: () => number): { leadership: Leadership; next(): Promise<void> } {
  const works: ((term: Term) => Promise<void>)[] = [];
  let since = now();
  let end = async () => {};

  function begin() {
    since = now();
    const stop = new AbortController();
    const running = works.map((work) => work({ client, signal: stop.signal, since }));
    end = async () => {
      stop.abort();
      await Promise.all(running);
    };
  }

  return {
    leadership: {
      isLeading: true,
      leaderAddress: undefined,
      get since() {
        return since;
      },
      lease: { apiVersion: 'v1', kind: 'Lease', metadata: { name: 'lease', namespace: 'plant' } },
      whileLeading: (work) => void works.push(work),
      onWentBack() {},
      join: begin,
      [Symbol.asyncDispose]: () => end(),
    },
    async next() {
      await end();
      begin();
    },
  };
}
