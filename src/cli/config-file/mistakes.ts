import type { FoundIssue } from '../../config/issues.ts'
import type { Config } from '../../config.ts'
import { listPluginIssues } from '../../extensions/plugin-defaults.ts'
import { PLUGINS } from '../../extensions/plugins/registry.ts'
import { listCatalogIssues } from '../../resources/models.ts'
import { protocolNames } from '../../translation/protocols/registry.ts'

/**
 * Lists what models, providers and plugins' defaults get wrong in a config that has lost its `wrong`
 * settings. Of plugins nothing is said where the settings that they read are wrong.
 */
export const listFurtherIssues = (config: Config, wrong: string[][]): FoundIssue[] => [
  ...listCatalogIssues(config, protocolNames, wrong),
  ...(wrong.some(([section = '']) => READ_BY_PLUGINS.includes(section))
    ? []
    : listPluginIssues(config, PLUGINS)),
]

const READ_BY_PLUGINS = ['plugins', 'web_search', 'web_fetch', 'server_tools', 'providers']
