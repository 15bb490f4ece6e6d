import { userInfo } from 'node:os'
import type { ResealPlan } from '../../app/doctor/reseal.ts'
import type { Finding } from '../../app/doctor.ts'
import type { Gateway } from '../../app/gateway.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { Actor } from '../../resources/actor.ts'
import { confirm } from '../confirm.ts'
import { type Flags, offer } from '../fields.ts'
import { defineVerbs } from '../noun.ts'
import { parseInput } from '../options.ts'
import { print, printTable } from '../output.ts'
import { openRowProgress } from '../progress.ts'

/** What changes the data, instead of looking at it. */
const CHANGES = ['reseal', 'accept', 'redate']

const verb = defineVerbs(() => import('../../app/doctor.ts'), {
  // What another secret has sealed is sealed again by --reseal alone. A check changes nothing.
  needs: flags =>
    flags.reseal ? { anySecret: true } : { looks: CHANGES.every(name => !flags[name]) },
  answerUnopened: findObstacle,
})

/** Returns what keeps every other check from being made, as a finding. */
function findObstacle(thrown: unknown): { data: Finding[] } | undefined {
  if (!(thrown instanceof GatewayError)) return undefined
  const { check } = thrown.metadata
  if (typeof check !== 'string') return undefined
  process.exitCode = 1
  return { data: [{ check, ok: false, found: `${thrown.message}; nothing else was looked at` }] }
}

const RESEAL = [
  offer('--reseal', 'accept what was found: seal everything as it stands'),
  offer('--accept', 'accept that the end of the ledger, or a log, is not as it was written'),
  offer('--redate', 'date spending of days that have not come yet on today'),
  offer('--reason <text>', 'why, for the audit trail; with --reseal, --accept or --redate'),
  offer('--yes', 'do not ask; with --reseal, --accept or --redate'),
]

/**
 * `gateway doctor`: checks everything that money depends on. Exits with 1 if a check fails. With
 * `--reseal` it seals everything as it stands, with `--accept` it writes down where the ledger ends,
 * and with `--redate` it dates spending of the future on today, after saying what that changes.
 */
export const createDoctorCommand = () =>
  verb(
    'doctor',
    'check the ledger, its counters and the store, also while a server runs',
    RESEAL,
    (core, flags) => async (gateway, actor) => {
      checkFlags(flags)
      if (flags.reseal) await reseal(gateway, actor, flags)
      if (flags.accept) await accept(gateway, actor, flags)
      if (flags.redate) await redate(gateway, actor, flags)
      const progress = openRowProgress(flags)
      const { data } = await core
        .examineGateway(gateway, progress.show)
        .finally(() => progress.end())
      data.push(
        await core.examineFiles(gateway),
        await core.examineHomes(gateway),
        await core.examineSpool(gateway),
        await core.examineSandboxes(gateway),
        await core.describeEvictions(gateway),
      )
      if (gateway.store.nodes) data.push(await examineServers(gateway))
      if (gateway.config.storage.valkey) data.push(await examineValkey(gateway))
      if (!data.every(({ ok }) => ok)) process.exitCode = 1
      return { data }
    },
  ).printAs({
    CHECK: ({ check }) => check,
    STATE: ({ ok }) => (ok ? 'ok' : 'WRONG'),
    FOUND: ({ found }) => found,
  })

async function examineServers(gateway: Gateway): Promise<Finding> {
  const { examineNodes } = await import('../../app/nodes.ts')
  return examineNodes(gateway)
}

async function examineValkey(gateway: Gateway): Promise<Finding> {
  const { examineValkey } = await import('../../app/valkey.ts')
  return examineValkey(gateway)
}

// A reason or a yes without one of them would be taken for one that has an effect.
function checkFlags(flags: Flags): void {
  const [first, second] = CHANGES.filter(name => flags[name])
  if (second !== undefined) throw invalid(`--${second}: expected without --${first}`)
  for (const name of ['reason', 'yes'])
    if (flags[name] !== undefined && first === undefined)
      throw invalid(`--${name}: expected together with --reseal, --accept or --redate`)
}

async function redate(gateway: Gateway, actor: Actor, flags: Flags): Promise<void> {
  const core = await import('../../app/doctor.ts')
  const input = parseInput(core.Redating, { reason: flags.reason })
  await core.redateSpend(gateway, actor, input, {
    system_user: userInfo().username,
    approve: spending => {
      if (!flags.json) for (const one of spending) print(`This is dated on today: ${one}`)
      return flags.yes === true || confirm('Date it on today?')
    },
  })
}

async function accept(gateway: Gateway, actor: Actor, flags: Flags): Promise<void> {
  const core = await import('../../app/doctor/accept.ts')
  const input = parseInput(core.Acceptance, { reason: flags.reason })
  await core.acceptEnd(gateway, actor, input, {
    system_user: userInfo().username,
    approve: problems => {
      if (!flags.json) for (const problem of problems) print(`This is accepted: ${problem}`)
      return flags.yes === true || confirm('Go on with the ledger as it is?')
    },
  })
}

async function reseal(gateway: Gateway, actor: Actor, flags: Flags): Promise<void> {
  const core = await import('../../app/doctor/reseal.ts')
  const input = parseInput(core.Reseal, { reason: flags.reason })
  await core.resealRecords(gateway, actor, input, {
    system_user: userInfo().username,
    approve: plan => {
      if (!flags.json && flags.field === undefined) printPlan(plan)
      return flags.yes === true || confirm(QUESTION)
    },
  })
  // What could not be decrypted can be now.
  await gateway.refresh()
}

const QUESTION = 'Seal everything as it stands now?'

function printPlan({ accepted, remaining, rotates }: ResealPlan): void {
  if (rotates) print('What the previous secret has sealed is sealed with the current one.')
  printFindings('This is accepted as it stands, and no longer found:', accepted)
  printFindings('This stays wrong:', remaining)
}

function printFindings(heading: string, findings: Finding[]): void {
  if (findings.length === 0) return
  print(heading)
  printTable(
    ['CHECK', 'FOUND'],
    findings.map(({ check, found }) => [check, found]),
  )
}
