import { join } from 'node:path'
import { Command } from 'commander'
import type { BackupSummary } from '../../app/backup.ts'
import { invalid, notFound } from '../../base/errors.ts'
import type { Config } from '../../config.ts'
import { getDataDirectory } from '../data-directory.ts'
import {
  addPlaceOptions,
  addShapeOptions,
  type CommonOptions,
  listServedPaths,
  loadServedConfig,
} from '../options.ts'
import { formatDollars, print, printResult } from '../output.ts'
import { openRowProgress } from '../progress.ts'

interface BackupOptions extends CommonOptions {
  force?: boolean
  withSecret?: boolean
  withConfig?: boolean
  withFiles?: boolean
}

/** `gateway backup`: the data directory as one file, also while a server runs. */
export const createBackupCommand = () =>
  addOptions(
    new Command('backup')
      .description('write the data directory into one file, also while a server runs')
      .argument('<file>', 'the file to write'),
  )
    .option('--with-secret', 'include secret.key: the file then opens everything that is in it')
    .option(
      '--with-config',
      'include the config file, as gateway.yaml, and the key files beside it that it names',
    )
    .option(
      '--with-files',
      'include the bytes of uploaded files and of those of containers, checked; else their records alone',
    )
    .option('--force', 'replace the file if it exists')
    .action(backUp)

/** `gateway restore`: makes a data directory of a backup. */
export const createRestoreCommand = () =>
  addOptions(
    new Command('restore')
      .description('make a data directory of a backup; the server must be stopped')
      .argument('<file>', 'the backup'),
  )
    .option('--force', 'move aside what the data directory holds')
    .action(restore)

const addOptions = (command: Command): Command =>
  addPlaceOptions(addShapeOptions(command, 'print the summary as JSON'))

const getSecret = () => process.env.GATEWAY_SECRET || undefined

async function backUp(file: string, options: BackupOptions): Promise<void> {
  const core = await import('../../app/backup.ts')
  await refuseShared(
    options,
    'back it up as any database of Postgres (pg_dump), or copy it into a data directory ' +
      '(gateway store copy)',
  )
  const progress = openRowProgress(options)
  const answer = await core
    .backUp({
      onProgress: progress.show,
      file,
      data: getDataDirectory(options),
      secret: getSecret(),
      force: options.force === true,
      withSecret: options.withSecret === true,
      config: options.withConfig ? await findConfig(options) : undefined,
      withFiles: options.withFiles ? await readServedConfig(options) : undefined,
    })
    .finally(() => progress.end())
  await printResult(options, answer, ({ data }) => {
    print(`${data.file}: ${describe(data)}`)
    print(data.parts.includes('secret.key') ? WITH_SECRET : WITHOUT_SECRET)
    printElsewhere(data)
    printFiles(data)
  })
}

/** Throws 400 where the data is not in the directory. A config that is wrong hinders no backup. */
async function refuseShared(options: BackupOptions, remedy: string): Promise<void> {
  const config = await readServedConfig(options).catch(() => null)
  if (config?.storage.postgres) throw invalid(`storage.postgres has the data: ${remedy}`)
}

async function findConfig(options: BackupOptions): Promise<string> {
  const { findConfigPath } = await import('../config-file.ts')
  const { paths } = await listServedPaths(options)
  const file = findConfigPath(paths)
  if (file === undefined) throw notFound(`--with-config: there is no ${paths.join(', nor ')}`)
  return file
}

const readServedConfig = async (options: BackupOptions): Promise<Config> =>
  (await loadServedConfig(options, { withoutSecrets: true })).config

// The config that the backup brings is in no place yet where it would be found.
async function readRestoredConfig(options: BackupOptions, staging: string): Promise<Config> {
  const { listConfigPaths, readConfig } = await import('../config-file.ts')
  const { paths, isNamed } = listConfigPaths(options.config, getDataDirectory(options))
  const places = isNamed ? paths : [join(staging, 'gateway.yaml'), ...paths]
  return (await readConfig({ paths: places, isNamed }, { withoutSecrets: true })).config
}

const WITH_SECRET =
  'It holds the secret: who reads it can read provider keys and forge seals. Keep it encrypted.'
const WITHOUT_SECRET =
  'It does not hold the secret: keep secret.key or GATEWAY_SECRET too, or it cannot be restored.'

async function restore(file: string, options: BackupOptions): Promise<void> {
  const core = await import('../../app/backup/restore.ts')
  await refuseShared(
    options,
    'restore into another directory, and copy that into an empty database (gateway store copy)',
  )
  const progress = openRowProgress(options)
  const answer = await core
    .restore({
      onProgress: progress.show,
      file,
      data: getDataDirectory(options),
      secret: getSecret(),
      force: options.force === true,
      readConfig: staging => readRestoredConfig(options, staging),
    })
    .finally(() => progress.end())
  await printResult(options, answer, ({ data }) => {
    print(`${getDataDirectory(options)}: ${describe(data)}`)
    if (data.moved) print(`What was there is in ${data.moved}`)
    printElsewhere(data)
    printFiles(data)
  })
}

function printElsewhere({ elsewhere }: BackupSummary): void {
  if (elsewhere.length > 0)
    print(`It does not hold what its gateway.yaml names elsewhere: ${elsewhere.join(', ')}`)
}

function printFiles({ files, container_files, file_bytes }: BackupSummary): void {
  const count = `${countFiles(files, 'uploaded')} and ${countFiles(container_files, 'container')}`
  if (file_bytes !== null) print(`It holds the bytes of ${count}, ${file_bytes} bytes`)
  else if (files + container_files > 0)
    print(
      `It holds the records of ${count}, not the bytes: --with-files includes them, or copy the ` +
        'directory files of the data directory too, or the bucket of storage.s3',
    )
}

const countFiles = (count: number, kind: string): string =>
  `${count} ${kind} ${count === 1 ? 'file' : 'files'}`

const describe = ({ keys, generations, audit_entries, charged }: BackupSummary): string =>
  `${keys} keys, ${generations} calls, ${audit_entries} audit entries, ` +
  `${formatDollars(charged)} charged, all checked`
