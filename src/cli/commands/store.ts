import { Command } from 'commander'
import type { StoreCopySummary } from '../../app/backup/store-copy.ts'
import { invalid } from '../../base/errors.ts'
import { defineNoun } from '../noun.ts'
import { addShapeOptions, type CommonOptions } from '../options.ts'
import { print, printResult } from '../output.ts'
import { openRowProgress } from '../progress.ts'

const PLACE =
  'a data directory, postgres://USER@HOST/DATABASE, or postgres: for the URL in ' +
  'GATEWAY_POSTGRES_URL, where no other user reads its password'

/** `gateway store`: the store as a whole. */
export const createStoreCommand = () =>
  defineNoun('store', 'copy the store into another place', [
    addShapeOptions(
      new Command('copy')
        .description(
          'copy all data into an empty data directory or Postgres database, as it stands',
        )
        .argument('<from>', PLACE)
        .argument('<to>', `${PLACE}; what is there already is refused`),
      'print the summary as JSON',
    ).action(copy),
  ])

async function copy(from: string, to: string, options: CommonOptions): Promise<void> {
  const core = await import('../../app/backup/store-copy.ts')
  const progress = openRowProgress(options)
  const answer = await core
    .copyStore({
      ...{ from: readPlace(from), to: readPlace(to) },
      secret: process.env.GATEWAY_SECRET || undefined,
      onProgress: progress.show,
    })
    .finally(() => progress.end())
  await printResult(options, answer, ({ data }) => {
    print(
      `${data.to}: ${data.rows} rows, with ${data.keys} keys and ${data.generations} calls, ` +
        `as they stand in ${data.from}`,
    )
    print(describeRest(data))
  })
}

const VARIABLE = 'GATEWAY_POSTGRES_URL'

function readPlace(text: string): string {
  if (text === '') throw invalid('Expected a data directory or a URL of Postgres, found nothing')
  if (!/^postgres(ql)?:$/.test(text)) return text
  const url = process.env[VARIABLE]
  if (!url) throw invalid(`${text} means the database of ${VARIABLE}, which is not set`)
  return url
}

function describeRest({ files, container_files }: StoreCopySummary): string {
  const bytes =
    files + container_files === 0
      ? ''
      : `the bytes of ${files} uploaded and ${container_files} container files (the directory ` +
        'files, or the bucket of storage.s3), '
  return `Not copied: ${bytes}the secret, the config and its key files, local logs and caches`
}
