import { jsonOr } from '../../domain/json.ts';

// What the Docker API answers, as far as the agent reads it.

export interface VersionAnswer {
  Version: string;
  ApiVersion: string;
  Components?: { Name: string }[];
}

export interface InfoAnswer {
  Runtimes?: Record<string, unknown>;
  DefaultRuntime?: string;
  SecurityOptions?: string[];
  Architecture?: string;
  CDISpecDirs?: string[] | null;
  DockerRootDir?: string;
}

export interface ImageItem {
  Id: string;
  RepoTags?: string[] | null;
  RepoDigests?: string[] | null;
  /** Unix seconds; not above 0: unknown */
  Created?: number;
  /** bytes; -1: not counted */
  Size?: number;
}

export interface DiskUsageAnswer {
  /** sizes in bytes; the shared one is of layers that another image has too */
  Images?: { Id: string; Size: number; SharedSize: number }[] | null;
}

/** A step of the build of an image. */
export interface HistoryItem {
  /** bytes */
  Size: number;
}

export interface ImageAnswer {
  /** bytes */
  Size: number;
  RootFS?: { Layers?: string[] };
  Config?: { Labels?: Record<string, string> | null };
}

export interface NetworkItem {
  Id: string;
  Name: string;
  IPAM?: { Config?: { Gateway?: string; Subnet?: string }[] | null };
}

export interface Endpoint {
  NetworkID?: string;
  IPAddress?: string;
}

export interface ListItem {
  Id: string;
  Names: string[];
  ImageID: string;
  /** Unix seconds */
  Created: number;
  Labels?: Record<string, string>;
  HostConfig?: { NetworkMode?: string };
  State: string;
  Status: string;
  NetworkSettings?: { Networks?: Record<string, Endpoint | undefined> };
  /** a port that the machine does not have for it has no PublicPort */
  Ports?: { PublicPort?: number; Type: string }[] | null;
}

export interface InspectAnswer {
  Id: string;
  Name: string;
  /** a time */
  Created?: string;
  Image: string;
  /** times in nanoseconds */
  Config: { Labels?: Record<string, string>; Healthcheck?: { Test?: string[]; Interval?: number; Timeout?: number } };
  HostConfig: { NetworkMode?: string };
  Mounts?: { Type?: string; Source?: string; RW?: boolean }[] | null;
  State: {
    Status: string;
    Running: boolean;
    OOMKilled: boolean;
    Dead: boolean;
    Pid: number;
    ExitCode: number;
    Error: string;
    StartedAt: string;
    FinishedAt: string;
    Health?: { Status?: string; Log?: { End?: string; ExitCode?: number; Output?: string }[] | null };
  };
  NetworkSettings?: {
    Networks?: Record<string, Endpoint | undefined>;
    Ports?: Record<string, { HostPort: string }[] | null>;
  };
}

/** An answer, or a line of one; {} for what is no JSON. */
export const parseAnswer = (text: string): unknown => jsonOr(text, {});
