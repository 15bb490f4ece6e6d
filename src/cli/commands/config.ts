import { Command } from 'commander'
import type { Catalog, Endpoint } from '../../core/catalog/models.ts'
import type { ConfigFile } from '../config-file.ts'
import { addCommonOptions, type CommonOptions, loadConfig } from '../options.ts'
import { print, printJson, printResult } from '../output.ts'

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
        new Command('schema').description('print the JSON Schema of the config file'),
      ).action(printSchema),
    )

async function checkConfig(file: string | undefined, options: CommonOptions): Promise<void> {
  const configFile = await loadConfig(file === undefined ? options : { ...options, config: file })
  const catalog = await openConfigCatalog(configFile)
  const models = [...catalog.models.values()].filter(model =>
    model.endpoints.some(endpoint => endpoint.provider.configured),
  )
  const providers = [...catalog.providers.values()].filter(provider => provider.configured)
  const unpriced = models.filter(model => model.endpoints.some(isUnpriced)).map(model => model.id)
  printResult(
    options.json,
    { file: configFile.file, models: models.length, providers: providers.length, unpriced },
    () => {
      print(
        `${configFile.file ?? 'No config file: the defaults'}: ` +
          `${formatCount(models.length, 'model')} at ${formatCount(providers.length, 'provider')}`,
      )
      for (const id of unpriced)
        print(`warning: ${id} has an endpoint without prices; what it costs will not be known`)
    },
  )
}

async function openConfigCatalog({ config, file, text }: ConfigFile): Promise<Catalog> {
  const { nameConfigFile } = await import('../config-file.ts')
  const { openCatalog } = await import('../../core/catalog/models.ts')
  const { protocolNames } = await import('../../core/protocols/registry.ts')
  try {
    return openCatalog(config, protocolNames, new Date())
  } catch (thrown) {
    throw await nameConfigFile(file, thrown, text)
  }
}

const formatCount = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

const isUnpriced = ({ provider, prices }: Endpoint) => provider.configured && prices === null

async function printSchema(): Promise<void> {
  const { Config } = await import('../../core/config.ts')
  const { buildEditorSchema } = await import('../../core/config/editor-schema.ts')
  printJson(buildEditorSchema(Config))
}
