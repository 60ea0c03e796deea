/** What the global set-ups provide to tests: `inject('kubeconfig')`. */
interface Provided {
  /** Path of a cluster admin's kubeconfig; the CRDs are installed. Projects api and e2e. */
  kubeconfig: string;
  /** Container engines of different kinds that speak the Docker API. Project engine. */
  engines: { kind: 'docker' | 'podman'; url: string }[];
  /** The same and the agent's own engine. Project engine. */
  everyEngine: { kind: 'docker' | 'podman' | 'embedded'; url: string }[];
  /** URL of a container engine that speaks the Docker API, `unix:///...` or `tcp://...`. Projects engine and e2e. */
  engineUrl: string;
  /** Controller and agent as they ship, each bundled into one file, which starts in a third of the time. Project e2e. */
  programs: { controller: string; agent: string };
  /** URL of an empty image registry on loopback, `http://127.0.0.1:<port>`. Projects engine and e2e. */
  registryUrl: string;
}

declare module 'vitest' {
  interface ProvidedContext extends Provided {}
}

export {};
