import type { Gateway } from '../app/gateway.ts'
import { getDataDirectory } from './data-directory.ts'
import type { CommonOptions } from './options.ts'
import { readServerUrl } from './status-socket.ts'

/**
 * Has links lead to the server that runs on the data directory, as its own do: it may listen
 * elsewhere than the config says. What `server.site_url` says comes first.
 */
export async function learnSiteUrl(
  { config, instance }: Gateway,
  options: CommonOptions,
): Promise<void> {
  if (config.server.site_url !== undefined) return
  instance.siteUrl = (await readServerUrl(getDataDirectory(options))) ?? instance.siteUrl
}
