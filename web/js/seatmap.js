// The map: seats as a grid that the keyboard can walk (one tab stop; arrows move, Enter and Space choose), or sections as
// blocks where all seats at once would be too small. State is told by shape as well as by colour.

import { STATES } from "./bits.js";
import { draw, seatName } from "./ui.js";

const CHECK = (r) => `M${-r * 0.45} ${r * 0.05}l${r * 0.35} ${r * 0.4}l${r * 0.6} ${-r * 0.8}`;
const CROSS = (r) => `M${-r * 0.4} ${-r * 0.4}L${r * 0.4} ${r * 0.4}M${r * 0.4} ${-r * 0.4}L${-r * 0.4} ${r * 0.4}`;

/** One text per seat, whatever its labels are. */
export const seatKey = (seat) => JSON.stringify([seat.section, seat.row, seat.seat]);

/** `told` has toggle(seat), block(section) and price(section) in words. */
export class SeatMap {
  #box;
  #told;
  #svg;
  #seats = [];
  #bySection = new Map();
  #blocks = new Map();
  #chosen = new Set();
  #zoom = 1;
  #extent;
  #pitch = 100;

  constructor(box, told) {
    this.#box = box;
    this.#told = told;
    this.#listen();
    addEventListener("resize", () => this.#scale());
  }

  /** Show every seat of these sections of the layout. */
  seats(sections) {
    this.#reset();
    for (const section of sections) this.#bySection.set(section.section, this.#read(section));
    this.#seats = [...this.#bySection.values()].flatMap((section) => section.seats);
    this.#pitch = usualPitch(this.#seats);
    const near = this.#near(sections[0].focal);
    this.#begin(near ? { x: sections[0].focal.x, y: sections[0].focal.y } : null);
    this.#svg.setAttribute("role", "grid");
    this.#svg.setAttribute("aria-label", "Seat map");
    this.#svg.setAttribute("aria-multiselectable", "true");
    for (const section of this.#bySection.values()) this.#svg.append(...section.rows.map((row) => this.#drawRow(row)));
    if (this.#seats.length > 0) this.#seats[0].node.setAttribute("tabindex", "0");
    this.#finish();
  }

  /** Show sections as blocks. The list beside the map says the same to those who do not see it. */
  blocks(sections) {
    this.#reset();
    const seated = sections.filter((section) => section.rows.length > 0);
    const standing = sections.filter((section) => section.rows.length === 0);
    const boxes = seated.map((section) => ({ section, box: boxOf(section.rows.flatMap((row) => row.seats)) }));
    const corners = boxes.flatMap(({ box }) => [{ x: box.left, y: box.top }, { x: box.right, y: box.bottom }]);
    const all = boxOf(corners.length > 0 ? corners : [{ x: 0, y: 0 }, { x: 6000, y: 0 }]);
    const wide = all.right - all.left;
    this.#pitch = wide / 60;
    // Standing places have no geometry of their own: they stand between the stage and the nearest seats.
    const floor = standing.length > 0 ? this.#pitch * 4 : 0;
    const middle = (all.left + all.right) / 2;
    standing.forEach((section, at) => {
      const width = (wide * 0.6) / standing.length;
      const left = middle - (width * standing.length) / 2 + at * width;
      const bottom = all.top - this.#pitch;
      boxes.push({ section, box: { left, right: left + width * 0.97, top: bottom - floor, bottom } });
    });
    const stage = { x: middle, y: all.top - floor - this.#pitch * 3 };
    this.#seats = [...corners, stage];
    this.#begin(stage);
    this.#svg.setAttribute("aria-hidden", "true");
    for (const { section, box } of boxes) this.#svg.append(this.#drawBlock(section.section, box));
    this.#finish();
  }

  /** The states of a section's seats, in plan order. */
  states(name, states) {
    const section = this.#bySection.get(name);
    section?.seats.forEach((seat, at) => this.#paint(seat, STATES[states[at]] ?? "blocked"));
    this.#box.setAttribute("aria-busy", "false");
  }

  /** How full each section is. */
  counts(sections) {
    for (const { section, counts } of sections) {
      const block = this.#blocks.get(section);
      if (!block) continue;
      const all = counts.free + counts.held + counts.sold + counts.blocked;
      block.level.setAttribute("width", all === 0 ? 0 : (block.width * counts.free) / all);
      block.text.textContent = counts.free === 0 ? "none" : `${counts.free.toLocaleString("en")} free`;
      block.node.toggleAttribute("data-empty", counts.free === 0);
    }
    if (this.#blocks.size > 0) this.#box.setAttribute("aria-busy", "false");
  }

  /** Which seats the fan has chosen: keys. */
  choose(keys) {
    this.#chosen = new Set(keys);
    for (const seat of this.#seats) if (seat.node) this.#paint(seat, seat.state);
  }

  /** The state that is shown of a seat, or undefined if it is not on the screen. */
  stateOf(key) {
    return this.#seats.find((seat) => seat.key === key)?.state;
  }

  zoom(factor) {
    this.#zoom = Math.min(4, Math.max(0.5, this.#zoom * factor));
    this.#scale();
  }

  #reset() {
    this.#box.replaceChildren();
    this.#box.setAttribute("aria-busy", "true");
    this.#bySection.clear();
    this.#blocks.clear();
    this.#seats = [];
    this.#zoom = 1;
  }

  #read(section) {
    const rows = section.rows.map(({ row, seats }) =>
      seats.map((seat) => {
        const label = { section: section.section, row, seat: seat.seat };
        return { ...label, x: seat.x, y: seat.y, accessible: Boolean(seat.accessible), key: seatKey(label), state: "unknown" };
      }),
    );
    for (const row of rows) row.forEach((seat, at) => Object.assign(seat, { neighbours: row, at }));
    return { rows, seats: rows.flat() };
  }

  /** Whether the stage is close enough to be drawn at its place. */
  #near(focal) {
    const box = boxOf(this.#seats);
    const reach = Math.max(box.right - box.left, box.bottom - box.top) * 0.5;
    return focal.y > box.top - reach && focal.y < box.bottom + reach && focal.x > box.left - reach && focal.x < box.right + reach;
  }

  #begin(focal) {
    const box = boxOf(focal ? [...this.#seats, focal] : this.#seats);
    const margin = this.#pitch * 2;
    const top = focal ? 0 : this.#pitch;
    this.#extent = {
      x: box.left - margin, y: box.top - margin - top,
      width: box.right - box.left + 2 * margin, height: box.bottom - box.top + 2 * margin + top,
    };
    const { x, y, width, height } = this.#extent;
    this.#svg = draw("svg", { viewBox: `${x} ${y} ${width} ${height}`, id: "seat-map" });
    this.#drawStage(focal);
  }

  #drawStage(focal) {
    const { x, y, width } = this.#extent;
    const size = this.#pitch * 0.9;
    const text = draw("text", { "font-size": size, "aria-hidden": "true" });
    if (focal) {
      const [w, h] = [Math.min(width * 0.36, this.#pitch * 20), this.#pitch * 1.8];
      const stage = { x: focal.x - w / 2, y: focal.y - h / 2, width: w, height: h, rx: h / 4, class: "stage" };
      this.#svg.append(draw("rect", stage));
      text.setAttribute("x", focal.x);
      text.setAttribute("y", focal.y);
      text.textContent = "Stage";
    } else {
      text.setAttribute("x", x + width / 2);
      text.setAttribute("y", y + this.#pitch * 1.2);
      text.textContent = "↑ Stage";
    }
    this.#svg.append(text);
  }

  #drawRow(row) {
    const group = draw("g", { role: "row" });
    const r = this.#pitch * 0.4;
    for (const seat of row) {
      const ring = draw("circle", { class: "ring", r: r * 1.35, "stroke-width": r * 0.28 });
      seat.body = draw("circle", { class: "body", r, "stroke-width": r * 0.3 });
      seat.mark = draw("path", { class: "mark", "stroke-width": r * 0.26, d: "" });
      seat.node = draw("g", {
        class: "seat", role: "gridcell", tabindex: "-1", transform: `translate(${seat.x} ${seat.y})`,
        "data-seat": `${seat.section}|${seat.row}|${seat.seat}`,
      }, ring, seat.body, seat.mark);
      if (seat.accessible) seat.node.setAttribute("data-accessible", "");
      seat.node.seat = seat;
      this.#paint(seat, seat.state);
      group.append(seat.node);
    }
    for (const { x, y } of this.#labelPlaces(row)) {
      const text = draw("text", { x, y, "font-size": this.#pitch * 0.5, "aria-hidden": "true" });
      text.textContent = row[0].row;
      group.append(text);
    }
    return group;
  }

  /** Beyond both ends of a row; a box of a few seats, which need not stand in a line, is named once, to its left. */
  #labelPlaces(row) {
    if (row.length <= 6) {
      const box = boxOf(row);
      return [{ x: box.left - this.#pitch * 1.05, y: (box.top + box.bottom) / 2 }];
    }
    return [[row[0], row[1]], [row.at(-1), row.at(-2)]].map(([end, next]) => {
      const step = { x: end.x - next.x, y: end.y - next.y };
      const away = (this.#pitch * 1.05) / (Math.hypot(step.x, step.y) || 1);
      return { x: end.x + step.x * away, y: end.y + step.y * away };
    });
  }

  #drawBlock(name, box) {
    const [w, h] = [box.right - box.left, box.bottom - box.top];
    const frame = draw("rect", { x: box.left, y: box.top, width: w, height: h, rx: Math.min(w, h) / 10 });
    const bar = Math.min(h * 0.16, w * 0.08);
    const level = draw("rect", { class: "level", x: box.left, y: box.bottom - bar, width: 0, height: bar });
    const size = Math.min(w / 6, h / 3.4);
    const x = (box.left + box.right) / 2;
    const y = (box.top + box.bottom) / 2;
    const title = draw("text", { x, y: y - size * 0.65, "font-size": size, "font-weight": 600 });
    title.textContent = name;
    const text = draw("text", { x, y: y + size * 0.55, "font-size": size * 0.8 });
    const node = draw("g", { class: "block", "data-section": name }, frame, level, title, text);
    node.addEventListener("click", () => this.#told.block(name));
    this.#blocks.set(name, { node, level, text, width: w });
    return node;
  }

  #paint(seat, state) {
    const chosen = this.#chosen.has(seat.key);
    const look = `${state}${chosen}`;
    seat.state = state;
    if (seat.look === look) return;
    seat.look = look;
    const r = this.#pitch * 0.4;
    seat.node.setAttribute("data-state", state);
    seat.node.setAttribute("aria-selected", chosen);
    seat.node.setAttribute("aria-disabled", state !== "free" && !chosen);
    seat.body.setAttribute("r", state === "sold" ? r * 0.55 : state === "free" || chosen ? r : r * 0.85);
    seat.mark.setAttribute("d", chosen ? CHECK(r) : state === "blocked" ? CROSS(r) : "");
    this.#name(seat);
  }

  #name(seat) {
    const words = { unknown: "asking whether it is free", free: "free", held: "in a checkout", sold: "sold", blocked: "not for sale" };
    const parts = [seatName(seat), this.#told.price(seat.section), words[seat.state]];
    if (seat.accessible) parts.push("wheelchair place");
    if (this.#chosen.has(seat.key)) parts.push("chosen");
    const name = parts.filter(Boolean).join(", ");
    seat.node.setAttribute("aria-label", name);
    if (!seat.title) seat.node.append((seat.title = draw("title")));
    seat.title.textContent = name;
  }

  /** On the box, not on the drawing: an SVG element that listens for focus becomes a tab stop itself. */
  #listen() {
    this.#box.addEventListener("click", (event) => {
      const seat = event.target.closest?.(".seat")?.seat;
      if (seat) this.#pick(seat);
    });
    this.#box.addEventListener("focusin", (event) => this.#rove(event.target.closest(".seat")?.seat));
    this.#box.addEventListener("keydown", (event) => {
      const seat = event.target.closest(".seat")?.seat;
      if (!seat || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" || event.key === " ") this.#pick(seat);
      else if (!this.#move(seat, event.key)) return;
      event.preventDefault();
    });
  }

  #pick(seat) {
    this.#focus(seat);
    this.#told.toggle(seat);
  }

  #rove(seat) {
    if (!seat) return;
    for (const other of this.#svg.querySelectorAll('.seat[tabindex="0"]')) other.setAttribute("tabindex", "-1");
    seat.node.setAttribute("tabindex", "0");
  }

  #focus(seat) {
    this.#rove(seat);
    seat.node.focus({ preventScroll: false });
  }

  #move(seat, key) {
    const row = seat.neighbours;
    const forward = row.at(-1).x >= row[0].x ? 1 : -1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward };
    let next;
    if (key in steps) next = row[seat.at + steps[key]] ?? this.#nearest(seat, key === "ArrowRight" ? 1 : -1, 0);
    else if (key === "ArrowDown") next = this.#nearest(seat, 0, 1);
    else if (key === "ArrowUp") next = this.#nearest(seat, 0, -1);
    else if (key === "Home") next = forward > 0 ? row[0] : row.at(-1);
    else if (key === "End") next = forward > 0 ? row.at(-1) : row[0];
    else return false;
    if (next) this.#focus(next);
    return true;
  }

  /** The seat that lies best in a direction. */
  #nearest(from, right, down) {
    let best;
    let least = Infinity;
    for (const seat of this.#seats) {
      const [dx, dy] = [seat.x - from.x, seat.y - from.y];
      const along = dx * right + dy * down;
      const across = Math.abs(dx * down + dy * right);
      const cost = along + 2 * across;
      if (seat !== from && along > this.#pitch * 0.4 && cost < least) [best, least] = [seat, cost];
    }
    return best;
  }

  #finish() {
    this.#box.append(this.#svg);
    this.#scale();
    this.#box.scrollLeft = (this.#box.scrollWidth - this.#box.clientWidth) / 2;
  }

  #scale() {
    if (!this.#svg || !this.#svg.isConnected) return;
    const { width, height } = this.#extent;
    const room = this.#box.clientWidth - 2;
    let scale = room / width;
    // A seat is at least 15 and at most 30 pixels apart from the next, so that it can be hit and does not shout.
    if (this.#blocks.size === 0) scale = Math.min(Math.max(scale, 15 / this.#pitch), 30 / this.#pitch);
    else scale = Math.max(scale, 640 / width);
    scale *= this.#zoom;
    this.#svg.setAttribute("width", Math.floor(width * scale));
    this.#svg.setAttribute("height", Math.floor(height * scale));
  }
}

function boxOf(points) {
  const box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (const { x, y } of points) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return box;
}

/** The median distance of neighbours. */
function usualPitch(seats) {
  const gaps = [];
  for (const seat of seats) {
    const next = seat.neighbours[seat.at + 1];
    if (next) gaps.push(Math.hypot(next.x - seat.x, next.y - seat.y));
  }
  gaps.sort((a, b) => a - b);
  return gaps[gaps.length >> 1] || 100;
}
