import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../../src/app/doctor.ts'
import { openGateway } from '../../../src/app/gateway.ts'
import { toDayNumber } from '../../../src/base/clock.ts'
import { markEnds } from '../../../src/engine/recover.ts'
import { updateGuardrail } from '../../../src/limits/guardrails.ts'
import type { StepCharge, Subaccount } from '../../../src/limits/ledger.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../../src/resources/default-guardrail.ts'
import { openDatabase } from '../../support/database.ts'
import { createCountedIds, TestClock } from '../../support/gateway.ts'
import { buildGeneration, buildStepCharge, buildStepEntry } from '../../support/generation.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-doctor-budgets-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const DAY = 86_400_000
const FIRST = toDayNumber(new Date('2026-03-04T12:00:00.000Z'))
const LATER = FIRST + 3
/** Of one model, and of each end user and tag. */
const BUDGETS = (['model', 'end_user', 'tag'] as const).map(by => ({
  ...{ by, limit_usd: 1, reset_interval: 'daily' as const },
  ...(by === 'model' ? { name: 'openai/gpt-4o' } : {}),
}))
let directories = 0

/**
 * Opens a directory with the calls of two days, of a workspace whose budgets began in the middle of
 * the first, damages it, and returns what the check of budgets finds. Of the calls of the second day
 * one has two steps, and the counts of another are estimated. `$W` is the workspace.
 */
async function examineAfter(damage?: string) {
  const data = join(root, String(++directories))
  const clock = new TestClock('2026-03-04T12:00:00.000Z')
  const open = () => openGateway({ data, clock, ids: createCountedIds(directories * 10_000) })
  const gateway = await open()
  const operator = getOperator(gateway)
  const { workspace_id, user_id } = operator
  const id = getDefaultGuardrailId(workspace_id)
  await updateGuardrail(gateway, operator, id, { budgets: BUDGETS })
  const of = `workspace ${workspace_id}`
  const record = async (n: number, isCounted: boolean, more: Partial<StepCharge> = {}) => {
    const settled_at = clock.now().toISOString()
    const external_user = `user-${n % 2}`
    const subaccounts = [
      ...[`model ${of} openai/gpt-4o`, `end_user ${of} ${external_user}`, `tag ${of} docs`],
    ] as Subaccount[]
    const owner = { key_hash: 'k', user_id, workspace_id, settled_at }
    const charge = {
      ...{ ...owner, id: `gen-${n}`, day: toDayNumber(clock.now()), nanos: 1000n },
      ...(isCounted ? { subaccounts } : {}),
      ...more,
    }
    const steps = charge.step ?? 1
    for (let step = 1; step < steps; step++)
      await gateway.store.generations.record([buildStepEntry(charge.id, step, { ...charge, step })])
    const generation = buildGeneration({
      ...{ ...owner, id: charge.id, model: 'openai/gpt-4o:free', external_user },
      upstream_inference_cost: 1000n * BigInt(steps),
    })
    await gateway.store.generations.record([{ generation, charge: buildStepCharge(charge) }])
  }
  for (let n = 0; n < 4; n++) await record(n, n > 1)
  clock.pass(3 * DAY)
  for (let n = 4; n < 10; n++) await record(n, true)
  await record(10, true, { step: 2 })
  await record(11, true, { source: 'estimated' })
  await markEnds(gateway)
  await gateway.close()
  const db = openDatabase(data)
  if (damage) db.run(damage.replaceAll('$W', of))
  db.close()
  const again = await open()
  const findings = (await examineGateway(again)).data
  await again.close()
  expect(findings.filter(({ ok, check }) => !ok && check !== 'budgets')).toEqual([])
  const found = findings.find(({ check }) => check === 'budgets')?.found
  return found?.replaceAll(of, '$W')
}

test('what budgets have counted matches the calls, also where not all is known of one', async () => {
  expect(await examineAfter()).toBe('8 sums of end users, tags and models match their calls')
})

const SUMS = (account: string, day: number) =>
  `call_spend where account = '${account}' and day = ${day}`
const raise = (account: string, day: number, by: number) =>
  `update call_spend set nanos = nanos + ${by} where account = '${account}' and day = ${day}`

test.each<[what: string, damage: string, found: string]>([
  [
    'more of a model than its calls cost',
    raise('model $W openai/gpt-4o', LATER, 5000),
    `model $W openai/gpt-4o on day ${LATER}: counted $0.000014, its calls sum to $0.000009`,
  ],
  [
    'less of a model',
    raise('model $W openai/gpt-4o', LATER, -4000),
    `model $W openai/gpt-4o on day ${LATER}: counted $0.000005, its calls sum to $0.000006`,
  ],
  [
    'nothing of an end user',
    `delete from ${SUMS('end_user $W user-1', LATER)}`,
    `end_user $W user-1 on day ${LATER}: counted $0, its calls sum to $0.000003`,
  ],
  [
    'an end user that made no call',
    `insert into call_spend values ('end_user $W nobody', ${FIRST}, 0, 1000)`,
    `end_user $W nobody on day ${FIRST}: counted $0.000001, its calls sum to $0`,
  ],
  [
    'more of a tag than all calls cost',
    raise('tag $W docs', LATER, 1),
    `tag $W docs on day ${LATER}: counted $0.000009001, its calls sum to $0.000009`,
  ],
  [
    'more of a model on a day on which not all calls were counted',
    raise('model $W openai/gpt-4o', FIRST, 2001),
    `model $W openai/gpt-4o on day ${FIRST}: counted $0.000004001, its calls sum to $0.000004`,
  ],
  [
    'a day that nobody has called on',
    `insert into call_spend values ('model $W openai/gpt-4o', ${FIRST + 1}, 1, 7000)`,
    `model $W openai/gpt-4o on day ${FIRST + 1} (byok): counted $0.000007, its calls sum to $0`,
  ],
])('damage is named: %s', async (_, damage, found) => {
  expect(await examineAfter(damage)).toBe(found)
})
