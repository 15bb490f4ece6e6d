import { listCatalogIssues } from '../../core/catalog/models.ts'
import type { FoundIssue } from '../../core/config/issues.ts'
import type { Config } from '../../core/config.ts'
import { listPluginIssues } from '../../core/inference/plugin-defaults.ts'
import { PLUGINS } from '../../core/plugins/registry.ts'
import { protocolNames } from '../../core/protocols/registry.ts'

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
