import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { conflict, notFound } from '../../base/errors.ts'
import type { Catalog, Endpoint } from '../../resources/models/catalog.ts'
import type { ConfigFile } from '../config-file.ts'
import { getDataDirectory, hasData } from '../data-directory.ts'
import { addCommonOptions, type CommonOptions, loadServedConfig } from '../options.ts'
import { print, printResult, printTable } from '../output.ts'

/** `gateway config`: checks the config file, and prints its schema. */
export const createConfigCommand = () =>
  new Command('config')
    .description('the config file')
    .addCommand(
      addCommonOptions(
        new Command('check').description('check the config file').argument('[file]'),
      ).action(checkConfig),
    )
    .addCommand(
      addCommonOptions(
        new Command('init').description('write a commented config file with every default'),
      ).action(initConfig),
    )
    .addCommand(
      addCommonOptions(
        new Command('show').description(
          'show every setting in effect, where it comes from, and no secret',
        ),
      )
        .option('--set', 'only those that are not the default')
        .action(showConfig),
    )
    .addCommand(
      addCommonOptions(
        new Command('schema').description('print the JSON Schema of the config file'),
      ).action(printSchema),
    )

async function checkConfig(file: string | undefined, options: CommonOptions): Promise<void> {
  const configFile = await loadServedConfig(
    file === undefined ? options : { ...options, config: file },
  )
  const catalog = await openConfigCatalog(configFile)
  const models = [...catalog.models.values()].filter(model =>
    model.endpoints.some(endpoint => endpoint.provider.configured),
  )
  const providers = [...catalog.providers.values()].filter(provider => provider.configured)
  const { listPassing } = await import('../../resources/models.ts')
  const callable = new Set([
    ...models.flatMap(({ endpoints }) => endpoints.map(({ provider }) => provider)),
    ...listPassing(configFile.config, catalog.providers),
  ])
  const empty = providers.filter(one => !callable.has(one)).map(({ slug }) => slug)
  const unpriced = models.filter(model => model.endpoints.some(isUnpriced)).map(model => model.id)
  await printResult(
    options,
    {
      ...{ file: configFile.file, models: models.length, providers: providers.length },
      ...{ unpriced, providers_without_models: empty },
    },
    () => {
      print(
        `${configFile.file ?? 'No config file: the defaults'}: ` +
          `${formatCount(models.length, 'model')} at ${formatCount(providers.length, 'provider')}`,
      )
      for (const slug of empty)
        print(`warning: no model leads to ${slug}: name its models under models`)
      for (const id of unpriced)
        print(`warning: ${id} has an endpoint without prices; what it costs will not be known`)
    },
  )
}

async function initConfig(options: CommonOptions): Promise<void> {
  const { writeConfigFile } = await import('./init/provider.ts')
  const { renderEmptyConfig } = await import('./init/config-text.ts')
  const file = await chooseNewFile(options)
  writeConfigFile(file, renderEmptyConfig())
  await printResult(options, { config: file }, () =>
    print(`Wrote ${file}: gateway config check finds mistakes in it`),
  )
}

// Where gateway serve reads it, without making a data directory.
async function chooseNewFile(options: CommonOptions): Promise<string> {
  const { listConfigPaths } = await import('../config-file.ts')
  const data = getDataDirectory(options)
  const { paths, isNamed } = listConfigPaths(options.config, data)
  const existing = paths.find(path => existsSync(path))
  if (existing !== undefined) throw conflict(`${resolve(existing)} exists already`)
  const file = isNamed || hasData(data) ? paths[0] : paths[1]
  if (file === undefined)
    throw notFound(`There is no data of a gateway in ${resolve(data)}: gateway init makes it`)
  return resolve(file)
}

async function showConfig(options: CommonOptions & { set?: boolean }): Promise<void> {
  const { listEffectiveSettings } = await import('./config/effective.ts')
  const all = listEffectiveSettings(await loadServedConfig(options, { withoutSecrets: true }))
  const data = options.set ? all.filter(({ source }) => source !== 'default') : all
  await printResult(options, { data }, () =>
    printTable(
      ['SETTING', 'VALUE', 'FROM'],
      data.map(({ setting, value, source }) => [setting, renderValue(value), source]),
    ),
  )
}

const renderValue = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)

async function openConfigCatalog({ config, file, text }: ConfigFile): Promise<Catalog> {
  const { nameConfigFile } = await import('../config-file.ts')
  const { openCatalog } = await import('../../resources/models.ts')
  const { protocolNames } = await import('../../translation/protocols/registry.ts')
  const { listPluginIssues } = await import('../../extensions/plugin-defaults.ts')
  const { PLUGINS } = await import('../../extensions/plugins/registry.ts')
  try {
    const issues = listPluginIssues(config, PLUGINS)
    return openCatalog(config, protocolNames, new Date(), { issues })
  } catch (thrown) {
    throw await nameConfigFile(file, thrown, text)
  }
}

const formatCount = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

const isUnpriced = ({ provider, prices }: Endpoint) => provider.configured && prices === null

async function printSchema({ field }: CommonOptions): Promise<void> {
  const { Config } = await import('../../config.ts')
  const { buildEditorSchema } = await import('../../config/editor-schema.ts')
  const shape = field === undefined ? { json: true } : { field }
  await printResult(shape, buildEditorSchema(Config), () => undefined)
}
