import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { resealRecords } from '../../../src/app/doctor/reseal.ts'
import { examineGateway } from '../../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { toDayNumber } from '../../../src/base/clock.ts'
import type { Seal } from '../../../src/base/seal.ts'
import type { RecordSecrets } from '../../../src/limits/seals.ts'
import { rollUp } from '../../../src/observability/rollups.ts'
import type { Actor } from '../../../src/resources/actor.ts'
import { buildDefaultWorkspace } from '../../../src/resources/workspaces.ts'
import type { Store } from '../../../src/store/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'
import { createSecrets, TEST_SECRET, TEST_SECRETS } from '../../support/ledger.ts'
import { buildVideoJob } from '../../support/video-job.ts'
import { buildKey, CREATED, WORKSPACE } from './rows.ts'

/** A database whose store the suite opens, and that another program changes. */
export interface Changeable {
  open(secrets: RecordSecrets): Promise<Store>
  /** Runs a statement as another program. */
  run(statement: string): Promise<unknown[]>
}

/** How an engine says what this suite does to its schema. */
interface Words {
  /** The name of a trigger, as `doctor` says it, and what removes it. */
  trigger: string
  dropTrigger: string
}

const OPERATOR: Actor = {
  ...{ kind: 'operator', user_id: 'user_1', workspace_id: WORKSPACE, key_hash: null },
}

const NEXT = 'the next secret of the tests'

/** Tests what `doctor` finds in a store and how it seals that again, on a database of its own. */
export function testSeals(name: string, openEmpty: () => Promise<Changeable>, words: Words): void {
  /** Opens a store with a workspace, a key, and two charged calls that are summed. */
  async function openFilled(): Promise<{ database: Changeable; store: Store }> {
    const database = await openEmpty()
    const store = await database.open(TEST_SECRETS)
    await store.workspaces.insertIfAbsent(
      buildDefaultWorkspace(WORKSPACE, 'user_1', new Date(CREATED)),
    )
    await store.keys.insert(buildKey(), buildAuditEntry())
    const settled_at = new Date().toISOString()
    for (const id of ['a', 'b'])
      await store.generations.record([
        {
          generation: buildGeneration({ id, settled_at, ...COST }),
          charge: buildStepCharge({ id, settled_at, nanos: 5n, day: toDayNumber(new Date()) }),
        },
      ])
    await rollUp({ store })
    return { database, store }
  }

  const COST = { total_cost: 5n, upstream_inference_cost: 5n }

  /** Lists the checks of `doctor` that fail, with what they found. */
  const examine = async (gateway: Gateway): Promise<string[]> =>
    (await examineGateway(gateway)).data
      .filter(({ ok }) => !ok)
      .map(({ check, found }) => `${check}: ${found}`)

  const reseal = (gateway: Gateway) =>
    resealRecords(
      gateway,
      OPERATOR,
      { reason: 'repaired' },
      { system_user: 'ada', approve: () => true },
    )

  describe(`doctor: ${name}`, () => {
    // Each change is made to what those before it have left: to compare schemas makes the tables anew.
    let database: Changeable
    let gateway: Gateway
    let known: string[] = []

    beforeAll(async () => {
      const filled = await openFilled()
      database = filled.database
      gateway = await openGateway({ store: filled.store, secret: TEST_SECRET })
    })

    afterAll(() => gateway.close())

    test('finds nothing wrong in a store that only the gateway has changed', async () => {
      expect(await examine(gateway)).toEqual([])
      expect((await gateway.store.seals.listUnsealed()).join(' ')).not.toContain('ledger')
    })

    /** Lists every single thing that is wrong, with its check. */
    const examineEach = async () =>
      (await examine(gateway)).flatMap(line => {
        const check = line.slice(0, line.indexOf(': ') + 2)
        return line
          .slice(check.length)
          .split('; ')
          .map(found => check + found)
      })

    const FOUND: [what: string, sql: string, found: string, undo?: string][] = [
      // The end of the log is compared where all rows are as they were.
      [
        'a removed end of the log of seals',
        'delete from seal_log where n = (select max(n) from seal_log)',
        'seals: rows were removed together with their seals',
      ],
      [
        'a changed entry of the log of seals',
        "update seal_log set sum = '1' where n = 2",
        'seals: entry 2 of the log of seals was changed',
      ],
      [
        'a seal of no table',
        "insert into seals values ('other', 'a', 'b')",
        'seals: seals of other were added by another program',
      ],
      [
        'a changed opening',
        `update seal_log set opening = '{"sealed_at":"x"}' where n = 1`,
        'seals: the opening is missing, or was made with another secret',
      ],
      [
        'a changed row',
        'update keys set disabled = 1',
        'rules: keys h1 was changed by another program',
      ],
      [
        'an added row',
        "insert into meta values ('a', 'b')",
        'rules: meta a was added by another program',
      ],
      ['a removed row', 'delete from keys', 'rules: keys h1 was removed'],
      [
        'another table',
        'create table extra (a text)',
        'schema: the table extra was added by another program',
        // A check lists three things.
        'drop table extra',
      ],
      [
        'another column',
        'alter table keys add column color text',
        'schema: the table keys was changed by another program',
        'alter table keys drop column color',
      ],
      ['a missing index', 'drop index audit_of_time', 'schema: the index audit_of_time is missing'],
      [
        'another index',
        'create index more on audit (action)',
        'schema: the index more was added by another program',
        'drop index more',
      ],
      [
        'a missing view',
        'drop view delivery_receivers',
        'schema: the view delivery_receivers is missing',
      ],
      ['a missing trigger', words.dropTrigger, `schema: the ${words.trigger} is missing`],
    ]
    for (const [what, sql, found, undo] of FOUND)
      test(`finds ${what}`, async () => {
        await database.run(sql)
        const all = await examineEach()
        expect(all.filter(one => !known.includes(one))).toContain(found)
        known = all
        if (undo) await database.run(undo)
      })
  })

  describe(`doctor --reseal: ${name}`, () => {
    test('accepts what another program has changed, and says so in the audit trail', async () => {
      const { database, store } = await openFilled()
      const gateway = await openGateway({ store, secret: TEST_SECRET })
      await database.run('update keys set disabled = 1')
      await database.run("update generations set title = 'x' where id = 'a'")
      await database.run('update ledger set nanos = nanos + 1 where seq = 2')
      await database.run('update ledger set nanos = nanos - 1 where seq = 2')
      await database.run("update ledger set hash = 'x' where seq = 2")
      expect(await examine(gateway)).toHaveLength(3)
      await reseal(gateway)
      expect(await examine(gateway)).toEqual([])
      const { entries } = await store.audit.listPage({}, 0, 1)
      expect(entries[0]).toMatchObject({ action: 'seals.reseal', after: { reason: 'repaired' } })
      // What is changed and recorded from then on is sealed as ever.
      await store.keys.insert(buildKey({ hash: 'h2' }), buildAuditEntry())
      await database.run('update keys set "limit" = 7')
      expect(await examine(gateway)).toEqual([
        'rules: keys h1 was changed by another program; keys h2 was changed by another program',
      ])
      await gateway.close()
    })

    test('refuses where the schema is not as it was made, and changes nothing', async () => {
      const { database, store } = await openFilled()
      const gateway = await openGateway({ store, secret: TEST_SECRET })
      await database.run('update keys set disabled = 1')
      await database.run('create table extra (a text)')
      expect(reseal(gateway)).rejects.toThrow('Mend this first')
      expect(await examine(gateway)).toHaveLength(2)
      await gateway.close()
    })

    test('encrypts with the new secret all that the previous one has encrypted', async () => {
      const { database, store } = await openFilled()
      const next = createSecrets(NEXT)
      for (const { table, columns, context, choose } of ENCRYPTED) {
        const sealed = choose(TEST_SECRETS).seal(SECRET, context, createNonce())
        const values = Object.entries({ ...columns(sealed), created_at: CREATED })
        const names = values.map(([column]) => `"${column}"`)
        const texts = values.map(([, value]) => (value === null ? 'null' : `'${value}'`))
        await database.run(`insert into ${table} (${names}) values (${texts})`)
      }
      await store.close()
      const gateway = await openGateway({
        store: await database.open(next),
        ...{ secret: NEXT, previousSecret: TEST_SECRET },
      })
      expect(await gateway.store.seals.readOpening()).toBeNull()
      await reseal(gateway)
      await gateway.refresh()
      expect(await examine(gateway)).toEqual([])
      for (const { table, column, context, choose } of ENCRYPTED) {
        const rows = (await database.run(`select "${column}" as text from ${table}`)) as Texts
        const sealed = rows[0]?.text.split('\n').at(-1) ?? ''
        expect([table, choose(next).open(sealed, context)]).toEqual([table, SECRET])
        expect(choose(TEST_SECRETS).open(sealed, context)).toBeUndefined()
      }
      expect(await gateway.store.seals.under(TEST_SECRETS.mac).readOpening()).toBeNull()
      await gateway.close()
    })
  })
}

type Texts = { text: string }[]

/** What is encrypted everywhere. */
const SECRET = '{"of":"me"}'

const createNonce = () => crypto.getRandomValues(new Uint8Array(12))

/** A place in which a store has a text that is encrypted. */
interface Encrypted {
  table: string
  column: string
  context: string
  choose(secrets: RecordSecrets): Seal
  /** The other columns of a row, and this one with the sealed text. */
  columns(sealed: string): Record<string, string | number | null>
}

const chooseContent = ({ contentSeal }: RecordSecrets) => contentSeal()
const chooseDestination = ({ destinationSeal }: RecordSecrets) => destinationSeal()

const ENCRYPTED: Encrypted[] = [
  {
    ...{ table: 'byok', column: 'sealed', context: 'b1', choose: ({ seal }) => seal() },
    columns: sealed => ({
      ...{ id: 'b1', workspace_id: WORKSPACE, provider: 'openai', label: 'sk', sealed },
      ...{ disabled: 0, is_fallback: 1, is_byok_only: 0, is_required: 0, sort_order: 0 },
    }),
  },
  {
    ...{ table: 'responses', column: 'sealed', choose: chooseContent },
    context: `r1 ${WORKSPACE} k`,
    columns: sealed => ({
      ...{ id: 'r1', workspace_id: WORKSPACE, key_hash: 'k', status: 'completed' },
      ...{ size_bytes: 5, sealed },
    }),
  },
  {
    ...{ table: 'idempotency', column: 'sealed', context: 'n', choose: chooseContent },
    columns: sealed => ({ name: 'n', fingerprint: 'f', status: 200, sealed }),
  },
  {
    ...{ table: 'outbox', column: 'payload', context: 'm2', choose: chooseDestination },
    columns: sealed => ({
      ...{ topic: 'trace', generation_id: 'm1\nm2', payload: `{"plain":1}\n${sealed}`, calls: 2 },
    }),
  },
  {
    ...{ table: 'videos', column: 'callback_url', context: 'job-1', choose: chooseDestination },
    columns: callback_url =>
      ({ ...buildVideoJob({ id: 'job-1', callback_url }), is_byok: 0 }) as never,
  },
]
