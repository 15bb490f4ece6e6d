/** How many requests may be under way to providers at once. Bun's own limit is 256 and is read before the program starts. */
const MOST_REQUESTS = '65336'

/**
 * Variables that would change how the server speaks to providers behind its operator's back: a proxy that sees credentials,
 * certificates that are not checked, headers that are printed. The config says such things, the environment does not.
 */
const REFUSED = [
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'BUN_CONFIG_VERBOSE_FETCH',
  'HTTP_PROXY',
  'http_proxy',
  'HTTPS_PROXY',
  'https_proxy',
  'ALL_PROXY',
  'all_proxy',
]

/** Whether the process must be replaced by itself in another environment before it may serve. */
export const needsOwnEnvironment = (env: NodeJS.ProcessEnv): boolean =>
  env.BUN_CONFIG_MAX_HTTP_REQUESTS !== MOST_REQUESTS || REFUSED.some(name => env[name] !== undefined)

/** Starts this command line again in the same process, under the same id, in the environment that serving needs. Does not return. */
export function replaceProcess(): never {
  const env: Record<string, string> = { BUN_CONFIG_MAX_HTTP_REQUESTS: MOST_REQUESTS }
  for (const [name, value] of Object.entries(process.env)) if (value !== undefined && !REFUSED.includes(name)) env[name] ??= value
  env.BUN_CONFIG_MAX_HTTP_REQUESTS = MOST_REQUESTS
  const compiled = Bun.isStandaloneExecutable
  const rest = process.argv.slice(compiled ? 2 : 1)
  process.execve?.(process.execPath, [process.execPath, ...process.execArgv, ...rest], env)
  throw new Error('The process could not be started in its own environment')
}
