/** The file of settings of a new machine. */
export const SAMPLE_SETTINGS = `# Settings of the Skerry agent. Everything is optional; what is written here as a comment is the default.
# \`skerry-agent config\` changes them while the agent runs; an edit takes effect by itself, unless the file is not valid.
#
# containerEngine: docker               # or podman, or embedded; the first engine that is there, else embedded
# containerEngineUrl: unix:///var/run/docker.sock
# diskDirectory: /var/lib/skerry-agent  # identity, database, volumes
# localApiPort: 54321                   # health and metrics on the loopback interface; 0 is off
# logLevel: INFO
# shutdownPolicy: leave-running         # or drain-all: containers stop with the agent
# gpsMode: off                          # manual with gpsCoordinates: 47.5,8.7; dynamic with gpsDevice: /dev/ttyUSB0

# Public keys (PEM) whose releases this machine installs when the controller requests an upgrade.
# Without the file the agent never updates itself.
releaseKeyFile: release.pem

# Where the authority of the controller's certificate is written to: skerry-agent config cert @ca.pem
controllerCert: cert.crt
`;
