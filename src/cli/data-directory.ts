/** The data directory where neither the flag nor the environment names one. */
export const DEFAULT_DATA = './gateway-data'

/** Returns the data directory: the flag, else the environment, else the default. */
export const getDataDirectory = ({ data }: { data?: string }): string =>
  data ?? process.env.GATEWAY_DATA ?? DEFAULT_DATA
