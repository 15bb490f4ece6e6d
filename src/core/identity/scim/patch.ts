import { isObject, type Json, objects } from '../../kernel/json.ts'
import { type Attribute, named, type ResourceType } from './attributes.ts'
import { type Filter, parsePath } from './filter.ts'
import { locate, type Place, placeOf } from './match.ts'
import { refused } from './refusal.ts'
import { checkedResource, isKept, keptSingle, keptValue } from './resource.ts'

/** One step of a change (RFC 7644, 3.5.2). */
export interface Operation {
  op: 'add' | 'remove' | 'replace'
  path: string | undefined
  value: unknown
}

const PATCH_OP = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'

/** Identity providers send a few; a thousand are still done in one go. */
const MOST_OPERATIONS = 1_000

/** The steps in a body. Throws 400 `invalidSyntax` for what is no PatchOp. */
export function operationsOf(body: unknown): Operation[] {
  const schemas = isObject(body) ? body.schemas : undefined
  if (!isObject(body) || !Array.isArray(schemas) || !schemas.includes(PATCH_OP))
    throw refused('invalidSyntax', `schemas: expected ${PATCH_OP} among them`)
  const [, operations] =
    Object.entries(body).find(([name]) => name.toLowerCase() === 'operations') ?? []
  if (!Array.isArray(operations) || operations.length === 0)
    throw refused('invalidSyntax', 'Operations: expected a list of at least one')
  if (operations.length > MOST_OPERATIONS)
    throw refused('invalidSyntax', `Operations: expected at most ${MOST_OPERATIONS}`)
  return operations.map(operationOf)
}

// Entra ID writes "Add" and "Replace".
function operationOf(given: unknown, i: number): Operation {
  const { op, path, value }: Json = isObject(given) ? given : {}
  const known = (['add', 'remove', 'replace'] as const).find(
    one => typeof op === 'string' && op.toLowerCase() === one,
  )
  if (!known) throw refused('invalidSyntax', `Operations.${i}.op: expected add, remove or replace`)
  if (path !== undefined && path !== null && typeof path !== 'string')
    throw refused('invalidPath', `Operations.${i}.path: expected a text`)
  if (known !== 'remove' && value === undefined)
    throw refused('invalidValue', `Operations.${i}.value: expected a value`)
  return { op: known, path: path || undefined, value }
}

/**
 * The resource after these steps, all or none; the given one stays as it is. Only names of the schema are ever written.
 * Throws 400: `invalidPath`, `invalidValue`, `noTarget`, and `mutability` for what may not be written.
 */
export function patched(type: ResourceType, resource: Json, operations: Operation[]): Json {
  const draft = structuredClone(resource)
  for (const { op, path, value } of operations) {
    if (path === undefined) applyWhole(type, draft, op, value)
    else applyAt(type, draft, op, path, value)
  }
  return checkedResource(type, draft)
}

/** A step without a path says in its value where what belongs. Okta repeats the id there, which is no change. */
function applyWhole(type: ResourceType, draft: Json, op: Operation['op'], value: unknown): void {
  if (op === 'remove') throw refused('noTarget', 'path: expected what to remove')
  if (!isObject(value))
    throw refused('invalidValue', 'value: expected an object where no path is given')
  for (const [path, member] of Object.entries(value)) {
    const place = placeOf(type, path)
    if (place && place.attribute?.mutability !== 'readOnly') applyTo(draft, type, place, op, member)
  }
}

function applyAt(
  type: ResourceType,
  draft: Json,
  op: Operation['op'],
  path: string,
  value: unknown,
): void {
  const place = locate(type, parsePath(path))
  if (!place) throw refused('invalidPath', 'path: expected an attribute of the schema')
  if ([place.attribute, place.sub].some(one => one?.mutability === 'readOnly'))
    throw refused('mutability', `${place.attribute?.name} may not be written`)
  applyTo(draft, type, place, op, value)
}

function applyTo(
  draft: Json,
  type: ResourceType,
  place: Place,
  op: Operation['op'],
  value: unknown,
): void {
  const { attribute, extension } = place
  if (!attribute) applyToExtension(type, draft, extension ?? '', op, value)
  else if (isKept(attribute)) applyToAttribute(draft, place, attribute, op, value)
}

function applyToAttribute(
  draft: Json,
  place: Place,
  attribute: Attribute,
  op: Operation['op'],
  value: unknown,
): void {
  const { extension } = place
  const holder = extension === null ? draft : objectAt(draft, extension)
  // Null says that there shall be none (RFC 7643, 2.5).
  const really = value === null ? 'remove' : op
  if (attribute.multiValued) applyToList(holder, place, attribute, really, value)
  else applyToOne(holder, place, attribute, really, value)
  if (extension !== null && Object.keys(holder).length === 0) delete draft[extension]
}

function applyToExtension(
  type: ResourceType,
  draft: Json,
  extension: string,
  op: Operation['op'],
  value: unknown,
): void {
  if (op === 'remove' || value === null) delete draft[extension]
  else if (!isObject(value)) throw refused('invalidValue', `${extension}: expected an object`)
  else
    for (const [name, member] of Object.entries(value))
      applyWhole(type, draft, op, { [`${extension}:${name}`]: member })
}

function applyToOne(
  holder: Json,
  { sub }: Place,
  attribute: Attribute,
  op: Operation['op'],
  value: unknown,
): void {
  if (sub) {
    const inner = objectAt(holder, attribute.name)
    assign(inner, sub, op === 'remove' ? undefined : keptSingle(sub, value))
    if (Object.keys(inner).length === 0) delete holder[attribute.name]
    return
  }
  const before = holder[attribute.name]
  const read = op === 'remove' ? undefined : (keptSingle(attribute, value) ?? before)
  assign(holder, attribute, isObject(before) && isObject(read) ? { ...before, ...read } : read)
}

function applyToList(
  holder: Json,
  place: Place,
  attribute: Attribute,
  op: Operation['op'],
  value: unknown,
): void {
  const before = objects(holder[attribute.name])
  const after =
    op === 'remove'
      ? withoutMeant(before, place, attribute, value)
      : withGiven(before, place, attribute, op, value)
  assign(holder, attribute, after.length > 0 ? after : undefined)
}

function withoutMeant(
  before: Json[],
  { isMeant, sub }: Place,
  attribute: Attribute,
  value: unknown,
): Json[] {
  if (sub)
    return before
      .map(one => (isMeant?.(one) === false ? one : withoutMember(one, sub.name)))
      .filter(one => Object.keys(one).length > 0)
  if (isMeant) return before.filter(one => !isMeant(one))
  // Azure AD removes members by `path: "members"` and a list of them in `value`.
  if (value === undefined || value === null) return []
  const given = new Set(objects(keptValue(attribute, value)).map(identity))
  return before.filter(one => !given.has(identity(one)))
}

function withGiven(
  before: Json[],
  place: Place,
  attribute: Attribute,
  op: 'add' | 'replace',
  value: unknown,
): Json[] {
  const { isMeant, sub } = place
  if (isMeant || sub) return withMeantChanged(before, place, attribute, op, value)
  const given = objects(keptValue(attribute, value))
  if (op === 'replace') return distinct(given)
  return preferringLast(distinct([...before, ...given]), given)
}

function withMeantChanged(
  before: Json[],
  place: Place,
  attribute: Attribute,
  op: 'add' | 'replace',
  value: unknown,
): Json[] {
  const { isMeant, sub } = place
  const given = sub
    ? { [sub.name]: keptSingle(sub, value) }
    : (objects([keptSingle(attribute, value)])[0] ?? {})
  const meant = new Set(isMeant ? before.filter(isMeant) : before)
  if (meant.size === 0) return [...before, { ...madeFrom(place, attribute), ...given }]
  const changed = before.map(one =>
    meant.has(one) ? (op === 'replace' && !sub ? given : { ...one, ...given }) : one,
  )
  return preferringLast(
    changed,
    changed.filter((_, i) => meant.has(before[i] ?? {})),
  )
}

/**
 * What a filter that nothing meets says of the value that it would be met by. Entra ID writes a first work address as a replacement of
 * `emails[type eq "work"].value`. Throws 400 `noTarget` where it says nothing, or where the whole value was to be changed.
 */
function madeFrom({ filter, sub }: Place, attribute: Attribute): Json {
  const said = sub ? (filter === null ? {} : equalities(filter, attribute)) : undefined
  if (!said) throw refused('noTarget', 'path: expected a value that is there')
  return said
}

function equalities(filter: Filter, attribute: Attribute): Json | undefined {
  if (filter.op === 'and') {
    const all = filter.filters.map(one => equalities(one, attribute))
    return all.every(one => one !== undefined) ? Object.assign({}, ...all) : undefined
  }
  const sub = filter.op === 'eq' ? named(attribute.subAttributes, filter.path.name) : undefined
  return sub && filter.op === 'eq' && isKept(sub)
    ? { [sub.name]: keptSingle(sub, filter.value) }
    : undefined
}

// One that is made primary takes that from the others (RFC 7644, 3.5.2).
function preferringLast(values: Json[], changed: Json[]): Json[] {
  const preferred = changed.findLast(one => one.primary === true)
  if (!preferred) return values
  return values.map(one =>
    one.primary === true && identity(one) !== identity(preferred)
      ? { ...one, primary: false }
      : one,
  )
}

function distinct(values: Json[]): Json[] {
  const seen = new Set<string>()
  return values.filter(one => !seen.has(identity(one)) && seen.add(identity(one)))
}

// Members of an object count in any order.
const identity = (value: Json): string =>
  JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))

const withoutMember = (value: Json, name: string): Json =>
  Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))

function objectAt(holder: Json, name: string): Json {
  const found = holder[name]
  if (isObject(found)) return found
  const made: Json = {}
  holder[name] = made
  return made
}

function assign(holder: Json, { name }: Attribute, value: unknown): void {
  if (value === undefined) delete holder[name]
  else holder[name] = value
}
