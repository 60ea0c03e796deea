/**
 * Upper bounds of everything that has a length. The CRDs need them (an unbounded list makes the cost
 * estimate of every CEL rule below it explode), REST needs them, and the agent caps its memory by them.
 * Text lengths count Unicode code points, as the API server does.
 */
export const BOUNDS = {
  /** microservices of one application */
  entries: 128,
  ports: 64,
  volumes: 64,
  env: 128,
  envValue: 32 * 1024,
  arguments: 256,
  argument: 4096,
  path: 255,
  name: 253,
  /** e-mail address of a user (RFC 5321) */
  email: 254,
  groupsOfUser: 64,
  /** former names of a group */
  groupAliases: 16,
  /** e-mails that a user had within an hour */
  formerEmails: 16,
  /** v3 names of kinds that accept any text */
  anyName: 255,
  entryName: 63,
  extraHosts: 64,
  devices: 64,
  tmpfs: 32,
  capabilities: 64,
  sysctls: 32,
  ulimits: 32,
  annotations: 64,
  annotationKey: 317,
  annotationValue: 4096,
  catalogItems: 64,
  templateVariables: 64,
  /** members of the body of a template */
  templateMembers: 64,
  images: 512,
  description: 1024,
  message: 1024,
  /** exit code and output of a failing health check */
  healthMessage: 256,
  url: 2048,
  tags: 64,
  /** the backend of a service: application/microservice at most; a tag of it, which may be an annotation with its value */
  serviceResource: 512,
  serviceTag: 1024,
  /** a subject of the message bus, a queue group included; subjects of one list of a rule */
  busSubject: 255,
  busSubjects: 64,
  /** imports, and exports, of a bus account rule */
  busShares: 64,
  /** tiers, addresses and times of a bus rule */
  busTiers: 8,
  busSources: 64,
  busTimes: 32,
  /** text of an activation token of an import */
  busActivation: 2048,
  /**
   * JSON text of the spec of a bus account rule, bytes: with the most revocations the Secret of an account, and the message that brings
   * its token to servers, stay below a mebibyte
   */
  busAccountRuleBytes: 384 * 1024,
  upstreams: 64,
  /** JSON text of a microservice's config, bytes */
  configBytes: 64 * 1024,
  /** base64 PEM bundle */
  certificateBundle: 128 * 1024,
  /** microservices in the report and the status of one node */
  report: 500,
  /** models, or knowledge, of one node */
  artifacts: 256,
  /** what a router says of its services, in one report */
  routerIssues: 256,
  /** globs of one model or knowledge */
  artifactFiles: 64,
  runtimeClasses: 64,
  /** nodes that one object is linked to */
  linkedNodes: 10_000,
  /** keys of a Secret or ConfigMap of the v3 API */
  coreObjectKeys: 512,
  /** base64 of the volume mounts of one node, characters: half of what an agent reads */
  volumeMountBytes: 16 * 1024 * 1024,
  /** sets of files that the system has on one node; files of one set; base64 of all of them, characters */
  systemFileSets: 600,
  systemFilesOfSet: 600,
  /** sets whose digests a report has */
  reportedFileSets: 32,
  systemFileBytes: 4 * 1024 * 1024,
  /** volume mounts of a node whose status records that it was sent them: those beyond count as new */
  sentVolumeMounts: 512,
  /** bytes of their values, as the API server has it */
  coreObjectBytes: 1024 * 1024,
  /** nodes that one microservice was moved from and that may still have its container */
  formerNodes: 16,
  /** private key, password or host keys of the ssh server of tunnels; what an agent says of its tunnel, JSON text */
  tunnelMaterial: 64 * 1024,
  tunnelStatus: 4096,
  conditions: 16,
  notHonoured: 16,
  /** numbers of the v3 API: the range of a 32-bit integer, which every client has */
  id: 2 ** 31 - 1,
} as const;
