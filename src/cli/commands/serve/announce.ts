import { toPrintableJson } from '../../../core/kernel/printable.ts'
import { getDataDirectory } from '../../data-directory.ts'
import { print } from '../../output.ts'
import type { Listeners } from './listeners.ts'
import type { Serving } from './serving.ts'

/** Tells where the server is. Stops listening and throws what prevents it. */
export async function announce(serving: Serving, { url, stop }: Listeners): Promise<void> {
  try {
    await printStart(serving, url)
  } catch (thrown) {
    await stop(0)
    throw thrown
  }
}

// Keys are made once nothing can fail any more, and only for a person: a log would keep them.
async function printStart(
  { gateway, options, configFile, isNew, log }: Serving,
  url: string,
): Promise<void> {
  const { listStartFacts, printBanner } = await import('./banner.ts')
  const { createFirstKeys } = await import('../../../core/identity/workspaces.ts')
  const { findSkippedConfig, listConfigPaths } = await import('../../config-file.ts')
  const data = getDataDirectory(options)
  const skipped = findSkippedConfig(listConfigPaths(options.config, data))
  const isWatched = options.log === 'text' && process.stdout.isTTY
  const keys = isWatched ? await createFirstKeys(gateway) : undefined
  const start = { url, data, isNew, configFile, skipped, keys }
  if (options.log === 'text') return printBanner(gateway, start)
  log('info', 'started', listStartFacts(gateway, start))
  print(toPrintableJson({ time: new Date().toISOString(), level: 'info', event: 'listening', url }))
}
