// Times as people say them, in the reader's own language and zone.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long" });
const weekdayShort = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long" });
const dateShort = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export const time = (at) => clock.format(at);
export const moment = (at) => full.format(at);

// How many midnights lie between `at` and now.
function daysAgo(at) {
  const midnight = (stamp) => new Date(stamp).setHours(0, 0, 0, 0);
  return Math.round((midnight(Date.now()) - midnight(at)) / 86400000);
}

// The heading of a day.
export function day(at) {
  const days = daysAgo(at);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? weekday.format(at) : date.format(at);
}

// The shortest useful stamp, for the list of chats.
export function brief(at) {
  const days = daysAgo(at);
  if (days <= 0) return clock.format(at);
  return days < 7 ? weekdayShort.format(at) : dateShort.format(at);
}
