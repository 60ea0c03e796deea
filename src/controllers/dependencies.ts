import type { EventReason } from '../api/conditions.ts';
import type { ControlPlane, SystemImages } from '../api/names.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import type { Ids } from '../datastore/ids.ts';
import type { StoreLookups } from '../datastore/lookups.ts';
import type { Stores } from '../datastore/stores.ts';
import type { LoginFacts } from '../identity/contract/facts.ts';
import type { EventRecorder, KubeClient, KubeMetrics, KubeObject } from '../kube/mod.ts';
import type { Log } from '../lib/log.ts';
import type { HubServersOptions } from '../rules/bus-hub.ts';
import type { DesiredState, Liveness, Observation } from '../rules/inputs.ts';
import type { PlatformOptions } from '../rules/part.ts';
import type { Renderer } from '../rules/renderer.ts';
import type { RouterHubEnds, RouterHubOptions } from '../rules/router-hub.ts';
import type { ServiceSettings } from '../rules/service-settings.ts';
import type { Kinds } from '../subjects/kinds.ts';

/** The dependencies of the reconcilers, which run on the leader alone and are the only writers of statuses. */
export interface ControllerDependencies {
  namespace: string;
  /** refuses writes once leadership is lost */
  client: KubeClient;
  stores: Stores;
  kinds: Kinds;
  lookups: StoreLookups;
  observations: {
    get(nodeUuid: string): Observation | undefined;
    entries(): Iterable<[string, Observation]>;
    forget(nodeUuid: string): void;
    subscribe(listener: (nodeUuid: string, now: Observation, before: Observation | undefined) => void): Disposable;
  };
  platform: PlatformOptions;
  /** name of the installation, which the operator of the message bus has in its name */
  installation?: string;
  /** the servers of the hub of the message bus that the controller makes; absent: the hub is elsewhere */
  hub?: HubServersOptions;
  /** the default router that the controller makes; absent: it is elsewhere */
  routerHub?: RouterHubOptions;
  /** absent: services never act */
  services?: ServiceSettings;
  /** what the running default router has of services; absent: there are no routers */
  hubEnds?: RouterHubEnds;
  /** the desired state of a node, as every replica sends it */
  desired(node: EdgeNode): DesiredState | undefined;
  /** the record of a node's last provisioning */
  provisioned(nodeUuid: string): { archId: number; containerEngine?: string; provisionedAt: number } | undefined;
  /** whether a node is live now */
  liveness(node: EdgeNode): Liveness;
  /** people who log in at this controller; absent where another provider has them */
  people?: {
    /** of their names in role bindings */
    prefix: string;
    /** absent while logins are off */
    logins?: LoginFacts;
  };
  /** exec sessions, at whichever replica; absent: there are none */
  sessions?: {
    /** those of the agent of a node */
    lists(nodeUuid: string): { exec: readonly { microserviceUuid: string }[] };
    /** false while sessions of other replicas may be missing */
    readonly isComplete: boolean;
    /** The listener is called with the node whose sessions began, ended, or lost their agent. */
    subscribe(listener: (nodeUuid: string) => void): Disposable;
  };
  /** Unix ms since when this process leads and gets all observations */
  listeningSince: number;
  ids: Ids;
  controlPlane: ControlPlane;
  /** images of the system's catalog items that the installation names */
  systemImages?: SystemImages;
  /** renders templates that kubectl named */
  templates: Renderer;
  events: EventRecorder<EventReason>;
  /** the object of events about the controller itself */
  self: KubeObject;
  log: Log;
  metrics: KubeMetrics & {
    massSilence?(is: boolean): void;
    /** the API server refused a status */
    statusRefused?(labels: { kind: string }): void;
    /** seconds from a change of an application to Ready */
    ready?(seconds: number): void;
  };
  /** Unix ms */
  clock: () => number;
}
