/** The process of an agent for a local API: it takes nothing, and its settings stay as they are. */
export const NO_PROCESS = {
  changeSettings: () => ({ errorMap: {}, restartNeeded: [] }),
  switchProfile: () => ({ oldProfile: 'default', profile: 'default', restartNeeded: [] }),
  installCertificate: async () => ({ path: '' }),
  reload: () => {},
  stop: () => 'leave-running' as const,
  phase: () => 'listening' as const,
};
