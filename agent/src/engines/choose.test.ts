import { describe, expect, test } from 'vitest';
import { chooseEngine, type EngineEvidence } from './choose.ts';

const DOCKER = 'unix:///var/run/docker.sock';
const PODMAN = 'unix:///run/podman/podman.sock';
const OWN = 'unix:///run/skerry-containerd/containerd.sock';

const bare: EngineEvidence = { isThere: () => false, former: undefined, isOld: false, canEmbed: () => true };
const having = (...urls: string[]): EngineEvidence => ({ ...bare, isThere: (path) => urls.includes(`unix://${path}`) });
const unset = { containerEngine: undefined, containerEngineUrl: undefined };

describe('the engine of a machine', () => {
  test('is the engine of the settings, present or not', () => {
    const named = (settings: object) =>
      chooseEngine({ ...unset, ...settings }, { ...having(DOCKER), former: { kind: 'docker', url: DOCKER } });
    expect(named({ containerEngine: 'podman' })).toEqual({ kind: 'podman', url: PODMAN });
    expect(named({ containerEngine: 'embedded' })).toEqual({ kind: 'embedded', url: OWN });
    expect(named({ containerEngineUrl: 'tcp://10.0.0.1:2375' })).toEqual({ url: 'tcp://10.0.0.1:2375' });
  });

  test("is the first one that is there, and the agent's own where none is", () => {
    expect(chooseEngine(unset, having(DOCKER, PODMAN)).kind).toBe('docker');
    expect(chooseEngine(unset, having(PODMAN)).url).toBe(PODMAN);
    expect(chooseEngine(unset, bare)).toEqual({ kind: 'embedded', url: OWN });
  });

  test("stays docker where the machine lacks the parts of the agent's own", () => {
    expect(chooseEngine(unset, { ...bare, canEmbed: () => false })).toEqual({
      kind: 'docker',
      url: DOCKER,
      isGuess: true,
    });
  });

  test('never changes in silence', () => {
    // docker was stopped, or removed.
    expect(chooseEngine(unset, { ...bare, former: { kind: 'docker', url: DOCKER } }).kind).toBe('docker');
    // docker was installed beside the agent's own.
    expect(chooseEngine(unset, { ...having(DOCKER, OWN), former: { kind: 'embedded', url: OWN } }).kind).toBe(
      'embedded',
    );
    // An agent without a record had docker, which is stopped.
    expect(chooseEngine(unset, { ...bare, isOld: true })).toEqual({ kind: 'docker', url: DOCKER });
  });

  test("is not judged by the socket of the agent's own, which another setting may have left", () => {
    expect(chooseEngine(unset, { ...having(OWN), canEmbed: () => false }).kind).toBe('docker');
  });
});
