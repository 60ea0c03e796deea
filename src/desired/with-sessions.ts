import type { NodeSessions } from '../sessions/rules/list.ts';
import type { DesiredCache } from './desired-cache.ts';

/** The desired states with the sections of sessions, which are no part of them: sessions are in memory only. */
export function withSessions(desired: DesiredCache, sessions: NodeSessions | undefined): DesiredCache {
  if (!sessions) return desired;
  return {
    ...desired,
    digests(uuid) {
      const due = desired.digests(uuid);
      const { digests } = sessions.lists(uuid);
      // The same object while there are no sessions, which polls compare first.
      return due && Object.keys(digests).length > 0 ? { ...due, ...digests } : due;
    },
    subscribe(listener) {
      const subscriptions = [
        desired.subscribe(listener),
        sessions.subscribe((node) => listener(new Set([node]), false)),
      ];
      return {
        [Symbol.dispose]() {
          for (const one of subscriptions) one[Symbol.dispose]();
        },
      };
    },
  };
}
