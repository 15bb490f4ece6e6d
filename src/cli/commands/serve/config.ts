import { closeSync, openSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ConfigWatch } from '../../config-file/watch.ts'
import { getDataDirectory } from '../../data-directory.ts'
import type { Serving } from './serving.ts'

/** Says which config file was read, which was passed over, and what of the environment was not. */
// It is known from nothing else: a wrong directory would be served with defaults.
export async function logConfigFile({
  options,
  configFile: { file, environment },
  log,
}: Serving): Promise<void> {
  const { findSkippedConfig, listConfigPaths } = await import('../../config-file.ts')
  const skipped = findSkippedConfig(listConfigPaths(options.config, getDataDirectory(options)))
  const read = { file: file === null ? 'none' : resolve(file) }
  log('info', 'config.read', skipped === undefined ? read : { ...read, skipped })
  for (const { slug, variable, reason } of environment.ignored)
    log('warn', 'environment.ignored', { variable, provider: slug, reason })
}

/**
 * Has a hangup reload the config from here on. If the terminal was closed, it ends the server
 * instead.
 */
export async function watchConfig({ gateway, options, configFile }: Serving): Promise<ConfigWatch> {
  const { listConfigPaths } = await import('../../config-file.ts')
  const { ConfigWatch } = await import('../../config-file/watch.ts')
  const watch = new ConfigWatch(
    gateway,
    listConfigPaths(options.config, getDataDirectory(options)),
    configFile,
  )
  const hadTerminal = process.stderr.isTTY
  process.on('SIGHUP', () => {
    if (hadTerminal && !hasTerminal()) process.kill(process.pid, 'SIGTERM')
    else void watch.reload()
  })
  return watch
}

function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}
