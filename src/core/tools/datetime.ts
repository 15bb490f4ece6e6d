import { Type } from '@sinclair/typebox'
import { invalid } from '../errors.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../inference/server-tool.ts'
import type { InferenceWorld } from '../inference/world.ts'
import { type Json, readString } from '../kernel/json.ts'
import { closed, Name, optional } from '../kernel/schema-builders.ts'

/** The options of the tool: the zone that a model gets that names none. */
interface DatetimeOptions {
  timezone: string
}

/** Tells the date and the time (wire reference D.6). */
export const datetime: ServerTool<DatetimeOptions> = {
  name: 'datetime',
  schema: Type.Object({ timezone: optional(Name) }, closed),
  readOptions: ({ timezone }, path) => ({
    timezone: timezone == null ? 'UTC' : readZone(timezone, `${path}.timezone`),
  }),
  findObstacle: () => null,
  listFunctions: (_, { options: { timezone } }) => [
    {
      name: 'datetime',
      description: 'Returns the current date and time, with the day of the week.',
      parameters: {
        type: 'object',
        properties: {
          timezone: {
            type: 'string',
            description: `An IANA time zone, such as Europe/Berlin. ${timezone} if omitted.`,
          },
        },
        additionalProperties: false,
      },
    },
  ],
  describeUse: ({ clock }, invocation) => tellTime(clock.now(), findZone(invocation) ?? 'UTC'),
  run: async (world, invocation) => runDatetime(world, invocation),
}

function runDatetime(
  { clock }: InferenceWorld,
  invocation: ToolInvocation<DatetimeOptions>,
): ToolResult {
  const zone = findZone(invocation)
  if (zone === null)
    return { text: 'There is no such time zone. Use an IANA name, as Asia/Tokyo.', isError: true }
  const item = tellTime(clock.now(), zone)
  const weekday = new Intl.DateTimeFormat('en', { weekday: 'long', timeZone: zone })
  const told = { ...item, weekday: weekday.format(clock.now()) }
  return { text: JSON.stringify(told), isError: false, item }
}

/** Returns the zone that the model asks for, or else the call's; null if it does not exist. */
function findZone({ input, options }: ToolInvocation<DatetimeOptions>): string | null {
  const asked = input.timezone ?? options.timezone
  return typeof asked === 'string' && isZone(asked) ? asked : null
}

const tellTime = (now: Date, timezone: string): Json => ({
  datetime: renderInZone(now, timezone),
  timezone,
})

/** Renders a moment in ISO 8601 with the offset of the zone. */
function renderInZone(now: Date, timeZone: string): string {
  // Sweden writes dates as ISO 8601 does.
  const local = new Intl.DateTimeFormat('sv-SE', {
    ...{ timeZone, year: 'numeric', month: '2-digit', day: '2-digit' },
    ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
  })
  const zone = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' })
  const name = zone.formatToParts(now).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const offset = name.replace(/^(GMT|UTC)/, '') || '+00:00'
  return `${local.format(now).replace(' ', 'T')}${offset}`
}

function readZone(value: unknown, path: string): string {
  const zone = readString(value)
  if (zone !== null && isZone(zone)) return zone
  throw invalid(`${path}: expected an IANA time zone, such as Europe/Berlin`, path)
}

function isZone(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone })
    return true
  } catch {
    return false
  }
}
