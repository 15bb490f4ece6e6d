import { Option } from 'commander'
import { BATCH_ENDPOINTS } from '../../resources/files/request-lines.ts'
import {
  demand,
  type Fields,
  type Flags,
  fill,
  fillNamed,
  fillWorkspace,
  PAST_TIME,
} from '../fields.ts'
import { KEYS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { parseNumber } from '../options.ts'
import { print, printFields } from '../output.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../extensions/batches.ts')),
    ...(await import('../../extensions/batches/schema.ts')),
    ...(await import('./batches/create.ts')),
  }),
  { args: { id: 'its id', path: 'the file of requests, one JSON object a line' } },
)

const NEW: Fields[] = [
  demand(fillNamed('key_hash', '--key <key>', 'the key that pays, by hash, name or label', KEYS)),
  {
    options: [
      new Option('--endpoint <path>', 'what its lines ask for')
        .choices(BATCH_ENDPOINTS)
        .default(BATCH_ENDPOINTS[0]),
    ],
    flags: { endpoint: '--endpoint' },
    read: ({ endpoint }: Flags) => ({ endpoint }),
  },
]

const WORKSPACE = fillWorkspace('another workspace, by id or slug')

const LIST: Fields[] = [
  fill('limit', '--limit <n>', 'how many at most (20)', { parse: parseNumber }),
  fill('after', '--cursor <id>', 'those that are older than this one'),
  fill('status', '--status <status>', 'those that are in_progress, completed, …'),
  fill(
    'created_after',
    '--created-after <time>',
    'a day or time in UTC, or so long ago: 7d',
    PAST_TIME,
  ),
  fill('created_before', '--created-before <time>', 'the same', PAST_TIME),
  WORKSPACE,
]

/** `gateway batches`: files of requests that are made later. */
export const createBatchesCommand = () =>
  defineNoun('batches', 'files of requests that are made when few clients wait', [
    verb('create <path>', 'store a file of requests and make a batch of it', NEW, core =>
      withInput(core.NewBatchOfFile, core.createBatchOfFile),
    ).printAs(({ id }) => print(`${id}: the server works on it (gateway batches get ${id})`)),
    verb('list', 'list the batches of a workspace, newest first', LIST, core =>
      withInput(core.BatchQuery, core.listBatches),
    ).printAs(
      {
        STATUS: batch => batch.status,
        DONE: ({ request_counts: counts }) => counts.completed,
        FAILED: ({ request_counts: counts }) => counts.failed,
        OF: ({ request_counts: counts }) => counts.total,
        ENDPOINT: batch => batch.endpoint,
        CREATED: batch => new Date(batch.created_at * 1000).toISOString(),
        ID: batch => batch.id,
      },
      ({ has_more, last_id }) => (has_more ? [`There are more: --cursor ${last_id}`] : []),
    ),
    verb('get <id>', 'show how far a batch is, and its files', [], core => core.getBatch).printAs(
      ({ errors, request_counts: { total, completed, failed }, ...batch }) => {
        printFields({ ...batch, requests: total, completed, failed })
        for (const { message } of errors?.data ?? []) print(message)
      },
    ),
    verb('cancel <id>', 'begin no line any more', [], core => core.cancelBatch).printAs(
      ({ id, status }) => print(`${id} is ${status}`),
    ),
    verb('delete <id>', 'delete a batch that has ended', [], core => core.deleteBatch).printAs(
      printDeleted,
    ),
  ])
