"""Word lists of the simulated supermarket: departments, aisles, products, brands, and which products go together.

All words are our own; brands are made of two word lists and belong to nobody. In `COMPLEMENTS`, `A = B` means that each
brings the other; `A > B` that A brings B, and B alone says nothing about A (cereal needs milk, milk needs no cereal).
Complements stand in different aisles: products of one aisle replace each other.
"""

from __future__ import annotations


def names(table: str) -> tuple[str, ...]:
    """The names of a comma-separated table."""
    return tuple(name.strip() for name in table.split(","))


# department: qualities that suit all its products
#   aisle | sizes | products
PRODUCT_LIST = """
produce: Organic, Local, Large, Small, Extra Fresh, Farm Stand, Hand Picked, Select, Value Bag, Premium, Greenhouse, Heirloom
  fresh fruit | each, 1 lb, 2 lb, 3 lb | Bananas, Strawberries, Avocados, Lemons, Limes, Gala Apples, Blueberries, Seedless Grapes, Navel Oranges, Pears
  fresh vegetables | each, 1 lb, 12 oz, 3 ct | Cucumbers, Yellow Onions, Garlic, Carrots, Russet Potatoes, Bell Peppers, Zucchini, Broccoli Crowns, Roma Tomatoes, Sweet Potatoes, Roasting Chestnuts
  salad greens | 5 oz, 8 oz, 10 oz, 16 oz | Baby Spinach, Romaine Hearts, Arugula, Spring Mix, Coleslaw Mix
  fresh herbs | bunch, 0.75 oz, 1 oz, potted | Cilantro, Basil, Flat Parsley, Mint Leaves, Rosemary Sprigs, Ginger Root

dairy eggs: Organic, Farmhouse, Creamery, Light, Family Size, Premium, Traditional, Small Batch, Valley, Fresh, Original, Country
  milk | quart, half gallon, gallon, pint | Whole Milk, Reduced Fat Milk, Half and Half, Heavy Cream, Chocolate Milk, Eggnog
  eggs | 6 ct, 12 ct, 18 ct, 24 ct | Large Eggs, Brown Eggs, Egg Whites
  butter | 8 oz, 16 oz, 4 sticks, tub | Salted Butter, Unsalted Butter, Margarine Spread
  cheese | 6 oz, 8 oz, 12 oz, 16 oz | Sharp Cheddar, Shredded Mozzarella, Parmesan Wedge, Brie Wheel, Feta Crumbles, String Cheese, Goat Cheese Log
  yogurt | 5.3 oz, 6 oz, 24 oz, 32 oz | Greek Yogurt, Vanilla Yogurt, Plain Kefir, Yogurt Drink
  cream cheese and dips | 8 oz, 10 oz, 12 oz, 16 oz | Cream Cheese, Sour Cream, French Onion Dip, Classic Hummus, Guacamole, Smoked Trout Spread

meat seafood: Organic, Butcher Cut, Family Pack, Premium, Hand Trimmed, Natural, Market, Value Pack, Select, Fresh, Small Batch, Choice
  beef and pork | 12 oz, 1 lb, 2 lb, 3 lb | Ground Beef, Beef Stew Meat, Pork Chops, Ribeye Steak, Baby Back Ribs, Corned Beef Brisket
  poultry | 1 lb, 2 lb, 3 lb, each | Chicken Breasts, Chicken Thighs, Whole Chicken, Ground Turkey, Chicken Wings
  hot dogs, bacon and sausage | 8 ct, 12 oz, 14 oz, 16 oz | Beef Hot Dogs, Smoked Bacon, Italian Sausage, Bratwurst, Breakfast Links
  seafood | 8 oz, 12 oz, 1 lb, 2 lb | Salmon Fillets, Raw Shrimp, Cod Fillets, Sea Scallops, Smoked Salmon, Dock Street Crab Cakes

deli: Classic, Deluxe, Chef Style, Market, Signature, Country, Original, Family Size, Fresh, Select, Corner, Premium
  lunch meat | 7 oz, 9 oz, 12 oz, 16 oz | Roast Turkey Slices, Black Forest Ham, Genoa Salami, Pastrami, Prosciutto
  prepared meals | 10 oz, 14 oz, 20 oz, each | Rotisserie Chicken, Chicken Noodle Soup Bowl, Potato Salad, Sushi Rolls, House Pierogi
  tofu and meat alternatives | 8 oz, 12 oz, 14 oz, 16 oz | Firm Tofu, Silken Tofu, Tempeh, Veggie Burgers

bakery: Soft, Artisan, Golden, Old Fashioned, Hearth, Honey, Country, Bakehouse, Fresh, Daily, Homestyle, Mini
  bread | 14 oz, 16 oz, 20 oz, 24 oz | Sandwich Bread, Sourdough Loaf, Multigrain Loaf, Rye Loaf, French Baguette, Texas Toast
  buns and rolls | 4 ct, 6 ct, 8 ct, 12 ct | Hot Dog Buns, Hamburger Buns, Dinner Rolls, Slider Buns
  bagels and muffins | 4 ct, 5 ct, 6 ct, 10 ct | Plain Bagels, Everything Bagels, English Muffins, Blueberry Muffins
  tortillas and flatbread | 6 ct, 8 ct, 10 ct, 20 ct | Flour Tortillas, Corn Tortillas, Pita Bread, Naan
  bakery desserts | each, 4 ct, 8 ct, 12 ct | Angel Food Cake, Glazed Donuts, Pound Cake, Holiday Fruitcake, Lighthouse Whoopie Pies

breakfast: Organic, Original, Homestyle, Family Size, Golden, Morning, Old Fashioned, Classic, Farmhouse, Natural, Value Pack, Sunrise
  cereal | 10 oz, 12 oz, 16 oz, 20 oz | Corn Flakes, Honey Oat Rings, Bran Flakes, Crisp Rice Cereal, Shredded Wheat
  granola and oats | 12 oz, 16 oz, 18 oz, 42 oz | Rolled Oats, Almond Granola, Instant Oatmeal, Muesli
  pancake mix and syrup | 12 oz, 16 oz, 24 oz, 32 oz | Buttermilk Pancake Mix, Maple Syrup, Waffle Mix, Blueberry Syrup

pantry: Organic, Traditional, Pure, Fancy, Chef Choice, Kitchen, Country, Classic, Original, Select, Farmhouse, Everyday
  baking ingredients | 8 oz, 1 lb, 2 lb, 5 lb | White Flour, Granulated Sugar, Brown Sugar, Baking Powder, Active Dry Yeast, Chocolate Chips, Vanilla Extract, Cocoa Powder, Cornmeal
  baking mixes and frosting | 12 oz, 14 oz, 16 oz, 18 oz | Yellow Cake Mix, Brownie Mix, Chocolate Frosting, Cornbread Mix, Rainbow Sprinkles
  spices and seasoning | 1 oz, 2 oz, 4 oz, 8 oz | Taco Seasoning, Ground Cinnamon, Black Pepper, Smoked Paprika, Pickling Spice, Chili Powder, Cajun Rub, Turkey Brine Kit
  oils and vinegars | 12 oz, 16 oz, 24 oz, 48 oz | Extra Virgin Olive Oil, Canola Oil, Balsamic Vinegar, Rice Vinegar, Sesame Oil
  spreads | 12 oz, 16 oz, 18 oz, 28 oz | Creamy Peanut Butter, Grape Jelly, Strawberry Preserves, Clover Honey, Hazelnut Spread, Almond Butter
  condiments | 8 oz, 12 oz, 14 oz, 20 oz | Tomato Ketchup, Yellow Mustard, Dijon Mustard, Mayonnaise, Dill Pickle Chips, Sweet Relish, Barbecue Sauce, Buffalo Sauce, Harbor Hot Sauce
  salad dressing and toppings | 5 oz, 8 oz, 12 oz, 16 oz | Ranch Dressing, Caesar Dressing, Garlic Croutons, Italian Dressing

dry goods pasta: Organic, Imported, Traditional, Family Size, Hearty, Rustic, Village, Classic, Original, Trattoria, Select, Everyday
  pasta | 8 oz, 12 oz, 16 oz, 32 oz | Spaghetti, Penne Rigate, Lasagna Noodles, Elbow Macaroni, Egg Noodles
  pasta sauce | 14 oz, 16 oz, 24 oz, 32 oz | Marinara Sauce, Basil Pesto, Alfredo Sauce, Vodka Sauce
  grains and rice | 1 lb, 2 lb, 5 lb, 10 lb | Long Grain White Rice, Jasmine Rice, Sushi Rice, Quinoa, Club Pack Basmati Rice
  instant meals | 2 oz, 3 oz, 6 oz, 12 oz | Macaroni and Cheese Dinner, Ramen Cups, Scalloped Potatoes Kit

canned goods: Organic, Hearty, Homestyle, Traditional, Classic, Original, Select, Family Size, Kitchen, Coastal, Country, Everyday
  canned vegetables | 8 oz, 14.5 oz, 15 oz, 28 oz | Diced Tomatoes, Tomato Paste, Sweet Corn Kernels, Cut Green Beans, Jellied Cranberry Sauce
  beans | 15 oz, 15.5 oz, 16 oz, 29 oz | Black Beans, Kidney Beans, Garbanzo Beans, Refried Beans, Lima Beans
  soup and broth | 10 oz, 14 oz, 18 oz, 32 oz | Chicken Broth, Tomato Soup, Cream of Mushroom Soup, Clam Chowder, Club Pack Chicken Stock
  canned fish | 5 oz, 7 oz, 12 oz, 3 ct | Chunk Light Tuna, Sardines, Pink Salmon Flakes, Anchovy Fillets

international: Authentic, Organic, Family Style, Traditional, Premium, Village, Gold Label, Street Style, Original, Market, Classic, Select
  asian foods | 6 oz, 10 oz, 13 oz, 16 oz | Green Curry Paste, Coconut Milk, Soy Sauce, Nori Sheets, Rice Noodles, Wasabi Paste, Peanut Sauce
  latin foods | 8 oz, 10 oz, 16 oz, 24 oz | Taco Shells, Enchilada Sauce, Salsa Roja, Chipotle Peppers, Tostadas
  indian foods | 8 oz, 10 oz, 12 oz, 16 oz | Tikka Masala Sauce, Mango Chutney, Red Lentils, Ghee

snacks: Organic, Original, Classic, Party Size, Snack Size, Bold, Homestyle, Premium, Value Bag, Family Size, Small Batch, Crunchy
  chips and pretzels | 5 oz, 8 oz, 10 oz, 13 oz | Tortilla Chips, Potato Chips, Pretzel Twists, Pita Chips, Cheese Puffs
  crackers | 6 oz, 8 oz, 10 oz, 14 oz | Butter Crackers, Water Crackers, Wheat Crackers, Graham Crackers, Animal Crackers
  cookies | 7 oz, 10 oz, 13 oz, 16 oz | Chocolate Sandwich Cookies, Oatmeal Cookies, Shortbread, Ginger Snaps, Gingerbread House Kit
  nuts and trail mix | 6 oz, 8 oz, 12 oz, 16 oz | Roasted Almonds, Mixed Nuts, Cashew Halves, Trail Mix, Club Pack Pistachios
  popcorn and bars | 3 ct, 6 ct, 12 ct, 18 ct | Microwave Popcorn, Popcorn Kernels, Granola Bars, Fruit Snacks, Rice Cakes
  candy | 3 oz, 5 oz, 8 oz, 11 oz | Chocolate Bars, Marshmallows, Gummy Bears, Peppermint Candy Canes, Salt Water Taffy

frozen: Organic, Premium, Family Size, Homestyle, Classic, Value Pack, Gourmet, Farm Fresh, Quick Freeze, Party Size, Original, Everyday
  frozen vegetables | 10 oz, 12 oz, 16 oz, 32 oz | Petite Peas, Stir Fry Vegetables, Shelled Edamame, Riced Cauliflower
  frozen meals and pizza | 10 oz, 14 oz, 22 oz, 30 oz | Cheese Pizza, Pepperoni Pizza, Chicken Pot Pie, Bean Burritos, Potstickers
  frozen breakfast | 8 ct, 10 ct, 12 ct, 24 ct | Buttermilk Waffles, French Toast Sticks, Hash Brown Patties
  frozen potatoes and chicken | 16 oz, 24 oz, 28 oz, 32 oz | Chicken Nuggets, Steak Fries, Tater Rounds, Club Pack Chicken Tenders
  ice cream | pint, 1.5 qt, 6 ct, 12 ct | Vanilla Bean Ice Cream, Chocolate Ice Cream, Fruit Popsicles, Farm Gate Ice Cream
  ice cream toppings | 5 oz, 7 oz, 8 oz, 12 ct | Sugar Cones, Hot Fudge, Maraschino Cherries, Whipped Topping

beverages: Organic, Natural, Original, Classic, Mountain, Family Size, Premium, Everyday, Morning, Sunrise, Select, Fresh
  water and seltzer | 1 L, 6 ct, 12 ct, 24 ct | Spring Water, Lime Seltzer, Tonic Water, Coconut Water, Club Pack Bottled Water
  soft drinks | 1 L, 2 L, 6 ct, 12 ct | Cola, Ginger Ale, Root Beer, Lemon Lime Soda, Club Soda
  juice | 32 oz, 52 oz, 64 oz, 89 oz | Orange Juice, Apple Juice, Cranberry Juice, Tomato Juice, Lighthouse Blueberry Cider
  coffee | 10 oz, 12 oz, 24 oz, 32 oz | Ground Coffee, Whole Bean Coffee, Coffee Pods, Cold Brew
  coffee supplies | 40 ct, 80 ct, 100 ct, 200 ct | Coffee Filters, Sugar Cubes, Hazelnut Creamer Cups
  tea | 16 ct, 20 ct, 40 ct, 80 ct | Black Tea Bags, Green Tea Bags, Chamomile Tea Bags, Chai Concentrate
  dairy free milk | 32 oz, 48 oz, 64 oz, 96 oz | Almond Milk, Oat Milk, Soy Milk

alcohol: Reserve, Classic, Bold, Crisp, Cellar, Small Batch, House, Vintage, Original, Select, Special, Old Town
  beer | 4 ct, 6 ct, 12 ct, 24 ct | Lager, India Pale Ale, Wheat Ale, Stout
  wine | 375 ml, 750 ml, 1.5 L, 3 L | Pinot Noir, Chardonnay, Prosecco, Mulled Wine, Harbor Island Rhubarb Wine
  spirits | 375 ml, 750 ml, 1 L, 1.75 L | London Gin, White Tequila, Aged Rum, Vodka
  cocktail mixers | 375 ml, 750 ml, 1 L, 1.75 L | Margarita Mix, Bloody Mary Mix, Grenadine

baby: Gentle, Organic, Pure, Premium, Value Pack, Little One, Soft Start, Natural, Everyday, Sensitive, Tiny, Classic
  diapers and wipes | 24 ct, 72 ct, 96 ct, 216 ct | Diapers, Baby Wipes, Training Pants
  baby food | 4 oz, 6 ct, 8 ct, 12 oz | Apple Carrot Puree, Oat Baby Cereal, Teething Biscuits
  baby care | 4 oz, 8 oz, 12 oz, 16 oz | Diaper Cream, Baby Shampoo, Infant Formula

pets: Natural, Premium, Value Pack, Farm Style, Everyday, Healthy, Happy Tail, Gentle, Select, Original, Family Size, Outdoor
  dog food and treats | 3 oz, 12 oz, 4 lb, 15 lb | Dry Dog Food, Canned Dog Food, Dental Chews, Dog Biscuits
  cat food | 3 oz, 12 ct, 3 lb, 7 lb | Dry Cat Food, Canned Cat Food, Cat Treats
  cat litter | 7 lb, 14 lb, 20 lb, 40 lb | Clumping Cat Litter, Litter Liners

household: Ultra, Eco, Mega, Everyday, Premium, Value Pack, Family Size, Basic, Bright Home, Recycled, Original, Extra
  laundry | 50 oz, 64 oz, 100 oz, 40 ct | Laundry Detergent, Fabric Softener, Dryer Sheets, Oxygen Bleach, Club Pack Detergent Pods
  dish care | 20 oz, 24 oz, 43 ct, 64 ct | Dish Soap, Dishwasher Tablets, Rinse Aid
  paper goods | 2 ct, 4 ct, 6 ct, 8 ct | Bath Tissue, Facial Tissue, Paper Napkins, Club Pack Paper Towels
  trash bags and food storage | 30 ct, 45 ct, 80 ct, 100 ct | Tall Kitchen Bags, Snack Bags, Aluminum Foil, Parchment Paper, Club Pack Trash Bags
  cleaning | 16 oz, 24 oz, 32 oz, 64 oz | Glass Cleaner, Floor Cleaner, Kitchen Sponges, Mop Refills
  plates and cutlery | 20 ct, 40 ct, 50 ct, 100 ct | Paper Plates, Plastic Cups, Plastic Forks, Birthday Candles
  seasonal and gifts | each, 2 ct, 3 ct, 6 ct | Holiday Wrapping Paper, Greeting Cards, Gift Bags
  grilling | 8 oz, 32 oz, 8 lb, 16 lb | Charcoal Briquettes, Lighter Fluid, Wood Skewers

personal care: Sensitive, Gentle, Natural, Extra, Daily, Aloe, Travel Size, Advanced, Family Size, Pure, Classic, Fresh
  oral care | 3 oz, 4 oz, 6 oz, 2 ct | Toothpaste, Toothbrush, Dental Floss, Mouthwash
  hair care | 8 oz, 12 oz, 20 oz, 28 oz | Shampoo, Hair Conditioner, Styling Gel
  shaving and soap | 4 ct, 6 ct, 8 oz, 10 oz | Razor Cartridges, Shave Gel, Bar Soap, Hand Soap, Club Pack Body Wash
  medicine | 20 ct, 24 ct, 50 ct, 100 ct | Cold Relief Caplets, Cough Drops, Pain Relief Tablets, Antacid Chews, Vitamin C Gummies
"""  # noqa: E501

BRAND_FIRST = names("""
Amber, Birch, Blue, Bright, Cedar, Clear, Copper, Crescent, East, Elder, Fair, Fern, Fox, Golden, Good,
Granite, Green, Hazel, High, Juniper, Lark, Maple, Meadow, Misty, North, Oak, Old, Quiet, River, Robin, Silver,
Stone, Sunny, Willow, Wren
""")
BRAND_SECOND = names("""
Acre, Barn, Bay, Bridge, Brook, Corner, Creek, Croft, Field, Gate, Grove, Harvest, Hearth, Hill, Hollow, Lane,
Larder, Orchard, Pantry, Ridge, Spring, Table, Vale, Well
""")

STAPLES = names("""
Bananas, Strawberries, Avocados, Lemons, Baby Spinach, Limes, Cucumbers, Blueberries, Carrots, Gala Apples
""")
"""Popular noise: bought with everything, complement of nothing."""

FAVOURED = names("""
Whole Milk, Large Eggs, Yellow Onions, Sandwich Bread, Salted Butter, Garlic, Cilantro, Sharp Cheddar,
Chicken Breasts, Ground Beef, Greek Yogurt, Extra Virgin Olive Oil, Tortilla Chips, Roma Tomatoes,
Orange Juice, Ground Coffee, Bath Tissue, Spaghetti, Bell Peppers, Tomato Ketchup, Corn Flakes, Potato Chips,
Cream Cheese, Sour Cream, Salsa Roja
""")
"""Products that sell well: their items stand near the head of the popularity curve."""

DECEMBER = names("""
Eggnog, Peppermint Candy Canes, Gingerbread House Kit, Jellied Cranberry Sauce, Holiday Fruitcake,
Holiday Wrapping Paper, Mulled Wine, Roasting Chestnuts, Turkey Brine Kit
""")
"""Sold in December only."""

ONE_STORE = names("""
Smoked Trout Spread, Dock Street Crab Cakes, House Pierogi, Lighthouse Whoopie Pies, Harbor Hot Sauce,
Salt Water Taffy, Farm Gate Ice Cream, Lighthouse Blueberry Cider, Harbor Island Rhubarb Wine
""")
"""Sold in one store only."""

STOCK_UP = names("""
Club Pack Basmati Rice, Club Pack Chicken Stock, Club Pack Pistachios, Club Pack Chicken Tenders,
Club Pack Bottled Water, Club Pack Detergent Pods, Club Pack Paper Towels, Club Pack Trash Bags,
Club Pack Body Wash
""")
"""Bought on large shopping trips, hardly ever on small ones."""


COMPLEMENTS = """
Beef Hot Dogs = Hot Dog Buns
Beef Hot Dogs > Yellow Mustard
Bratwurst = Dinner Rolls
Bratwurst > Dijon Mustard
Ground Beef = Hamburger Buns
Hamburger Buns > Dill Pickle Chips
Veggie Burgers > Slider Buns
Steak Fries > Tomato Ketchup
Chicken Nuggets > Barbecue Sauce
Chicken Wings = Buffalo Sauce
Baby Back Ribs > Charcoal Briquettes
Ribeye Steak > Rosemary Sprigs
Charcoal Briquettes > Sweet Relish
Wood Skewers > Zucchini
Tortilla Chips = Salsa Roja
Tortilla Chips > Guacamole
Taco Shells = Taco Seasoning
Taco Shells > Sour Cream
Taco Seasoning > Ground Beef
Enchilada Sauce = Corn Tortillas
Refried Beans = Tostadas
Flour Tortillas > Black Beans
Potato Chips = French Onion Dip
Pita Bread = Classic Hummus
Pita Chips > Feta Crumbles
Butter Crackers = Sharp Cheddar
Water Crackers = Brie Wheel
Wheat Crackers > Goat Cheese Log
Graham Crackers = Marshmallows
Graham Crackers > Chocolate Bars
Spaghetti = Marinara Sauce
Spaghetti > Parmesan Wedge
Penne Rigate = Vodka Sauce
Elbow Macaroni > Heavy Cream
Lasagna Noodles > Shredded Mozzarella
Lasagna Noodles = Italian Sausage
Egg Noodles = Beef Stew Meat
Basil Pesto > Basil
Alfredo Sauce > Flat Parsley
Green Curry Paste > Jasmine Rice
Coconut Milk > Red Lentils
Tikka Masala Sauce = Naan
Mango Chutney > Chicken Thighs
Sushi Rice = Nori Sheets
Sushi Rice > Rice Vinegar
Sushi Rolls > Wasabi Paste
Rice Noodles > Raw Shrimp
Stir Fry Vegetables = Soy Sauce
Potstickers > Sesame Oil
Firm Tofu > Ginger Root
Ramen Cups > Shelled Edamame
Plain Bagels = Cream Cheese
Everything Bagels > Smoked Salmon
English Muffins > Salted Butter
Creamy Peanut Butter > Sandwich Bread
Grape Jelly > Texas Toast
Corn Flakes > Whole Milk
Honey Oat Rings > Reduced Fat Milk
Crisp Rice Cereal > Unsalted Butter
Almond Granola = Vanilla Yogurt
Rolled Oats > Ground Cinnamon
Instant Oatmeal > Brown Sugar
Buttermilk Pancake Mix > Large Eggs
Buttermilk Waffles = Maple Syrup
Smoked Bacon > Brown Eggs
Breakfast Links = Hash Brown Patties
Yellow Cake Mix > Egg Whites
Chocolate Frosting > Birthday Candles
Brownie Mix > Canola Oil
White Flour > Plain Kefir
Chocolate Chips > Half and Half
Cornbread Mix = Kidney Beans
Chili Powder = Diced Tomatoes
Angel Food Cake > Whipped Topping
Vanilla Bean Ice Cream = Sugar Cones
Vanilla Bean Ice Cream > Root Beer
Chocolate Ice Cream = Hot Fudge
Caesar Dressing = Romaine Hearts
Ranch Dressing > Broccoli Crowns
Italian Dressing > Bell Peppers
Garlic Croutons > Spring Mix
Coleslaw Mix > Mayonnaise
Chunk Light Tuna > Multigrain Loaf
Roast Turkey Slices > Rye Loaf
Prosciutto > French Baguette
Tomato Soup = String Cheese
Clam Chowder > Sourdough Loaf
Cream of Mushroom Soup = Cut Green Beans
Whole Chicken > Chicken Broth
Sea Scallops > Quinoa
Corned Beef Brisket > Russet Potatoes
Chipotle Peppers > Cilantro
Garbanzo Beans > Extra Virgin Olive Oil
Refried Beans > Yellow Onions
Diced Tomatoes > Garlic
Long Grain White Rice > Ground Turkey
Ground Coffee = Coffee Filters
Whole Bean Coffee > Sugar Cubes
Black Tea Bags = Clover Honey
Chai Concentrate > Oat Milk
Chocolate Sandwich Cookies > Chocolate Milk
London Gin = Tonic Water
White Tequila = Margarita Mix
Margarita Mix > Navel Oranges
Vodka > Cranberry Juice
Bloody Mary Mix > Tomato Juice
Aged Rum > Cola
Aged Rum = Mint Leaves
Pinot Noir > Roasted Almonds
Prosecco > Orange Juice
Lager > Pretzel Twists
Microwave Popcorn > Lemon Lime Soda
Diapers = Diaper Cream
Oat Baby Cereal > Infant Formula
Dry Cat Food = Clumping Cat Litter
Laundry Detergent > Tall Kitchen Bags
Dryer Sheets > Facial Tissue
Dish Soap = Kitchen Sponges
Paper Plates = Paper Napkins
Plastic Cups > Ginger Ale
Toothpaste > Hand Soap
Shampoo > Shave Gel
Cold Relief Caplets = Chicken Noodle Soup Bowl
Cough Drops > Chamomile Tea Bags
Balsamic Vinegar > Roma Tomatoes
Greek Yogurt > Muesli
Cheese Pizza > Club Soda
"""
