import { Command } from 'commander'
import type { Catalog, Endpoint } from '../../core/catalog/models.ts'
import type { ConfigFile } from '../config-file.ts'
import { type CommonOptions, common, configOf } from '../options.ts'
import { output, print, printJson } from '../output.ts'

/** `gateway config`: checks the config file, and prints its schema. */
export const configCommand = () =>
  new Command('config')
    .description('the config file')
    .addCommand(
      common(new Command('check').description('check the config file').argument('[file]')).action(
        check,
      ),
    )
    .addCommand(
      common(new Command('schema').description('print the JSON Schema of the config file')).action(
        schema,
      ),
    )

async function check(file: string | undefined, options: CommonOptions): Promise<void> {
  const found = await configOf(file === undefined ? options : { ...options, config: file })
  const catalog = await catalogOf(found)
  const models = [...catalog.models.values()].filter(model =>
    model.endpoints.some(endpoint => endpoint.provider.configured),
  )
  const providers = [...catalog.providers.values()].filter(provider => provider.configured)
  const unpriced = models.filter(model => model.endpoints.some(isUnpriced)).map(model => model.id)
  output(
    options.json,
    { file: found.file, models: models.length, providers: providers.length, unpriced },
    () => {
      print(
        `${found.file ?? 'No config file: the defaults'}: ` +
          `${counted(models.length, 'model')} at ${counted(providers.length, 'provider')}`,
      )
      for (const id of unpriced)
        print(`warning: ${id} has an endpoint without prices; what it costs will not be known`)
    },
  )
}

async function catalogOf({ config, file }: ConfigFile): Promise<Catalog> {
  const { naming } = await import('../config-file.ts')
  const { openCatalog } = await import('../../core/catalog/models.ts')
  const { protocolNames } = await import('../../core/protocols/registry.ts')
  try {
    return openCatalog(config, protocolNames, new Date())
  } catch (thrown) {
    throw naming(file, thrown)
  }
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

const isUnpriced = ({ provider, prices }: Endpoint) => provider.configured && prices === null

async function schema(): Promise<void> {
  const { Config } = await import('../../core/config.ts')
  printJson({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'gateway config',
    ...Config,
  })
}
